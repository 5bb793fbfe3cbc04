"""Active ports that came up slower than their sisters or than the card can."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.fabric import Port, judged, ports
from pdchecks.facts.net import LinkSpeed
from pdchecks.facts.rdma import RdmaDevice
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known

# ib_port_attr of a driver that does not know its speed: single data rate, one lane.
_NO_RATE_GBPS = 2.5


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    rated = [port for port in ports(node) if port.active and not isinstance(port.rate_gbps, Unknown)]
    for port in rated:
        yield _against_sisters(node, port, [other for other in rated if other is not port])
    for port in ports(node):
        # The rate that tools print for a port that is down is a default.
        if port.down and node.collected:
            yield Verdict(Status.INFO, port.name, "has no rate: the port is down", quotes=port.quotes)
    for speed in node.all(LinkSpeed):
        if judged(node, speed.netdev) and speed.detected is not False:
            yield from _against_modes(speed)


def _against_sisters(node: NodeFacts, port: Port, others: list[Port]) -> Verdict:
    rate = known(port.rate_gbps) or 0.0
    if rate <= _NO_RATE_GBPS:
        summary = f"the rate is not known: the driver gives {rate:g} Gb/s, its word for a speed that it does not know"
        return Verdict(Status.UNKNOWN, port.name, summary, quotes=port.quotes)
    best = max(
        (other for other in others if _card(node, other.device) == _card(node, port.device)),
        key=lambda other: known(other.rate_gbps) or 0.0,
        default=port,
    )
    fastest = known(best.rate_gbps) or 0.0
    if rate >= fastest:
        return Verdict(Status.PASS, port.name, f"rate is {rate:g} Gb/s", quotes=port.quotes)
    return Verdict(
        Status.WARN,
        port.name,
        f"rate is {rate:g} Gb/s, while {best.name} on the same kind of card runs at {fastest:g} Gb/s",
        "Cable, module or switch port of this link is slower, or lanes of it were lost when it came up.",
        (*port.quotes, *best.quotes),
        (f"ethtool {known(port.netdev) or '<netdev>'}", f"rdma link show {port.name}"),
        Remedy(
            "Compare cable, module and switch port with those of the faster link; reseat them; check FEC and speed."
        ),
    )


def _card(node: NodeFacts, device: str) -> object:
    """What a device must share with another to be compared: the part; else the firmware's family; else nothing."""
    facts = [fact for fact in node.all(RdmaDevice) if fact.device == device]
    parts = [fact.part for fact in facts if not isinstance(fact.part, Unknown)]
    families = [fact.firmware.partition(".")[0] for fact in facts if not isinstance(fact.firmware, Unknown)]
    return next(iter([*parts, *families]), device)


def _against_modes(speed: LinkSpeed) -> Iterator[Verdict]:
    now, most = known(speed.speed_mbps), known(speed.supported_mbps)
    if now is None or most is None:
        return
    if now >= most:
        yield Verdict(
            Status.PASS, speed.netdev, f"speed is {now} Mb/s, the most that it supports", quotes=(speed.quote,)
        )
        return
    yield Verdict(
        Status.WARN,
        speed.netdev,
        f"speed is {now} Mb/s; card and module support {most} Mb/s",
        "The switch port or the cable allows less than the card can, or the link came up with fewer lanes.",
        (speed.quote,),
        (f"ethtool {speed.netdev}", f"ethtool -m {speed.netdev}"),
        Remedy("Compare the switch port's speed and FEC with the card's; replace or reseat cable and module."),
    )


CHECK = NodeCheck(
    id="PD-LINK-004",
    topic="link.rate",
    title="Link runs below its speed",
    severity=Severity.HIGH,
    tools=("ibstat", "infiniband", "ethtool"),
    sources=("linux include/rdma/ib_verbs.h, enum ib_port_speed", "ethtool(8)"),
    need=Need.RDMA,
    judge=judge,
)
