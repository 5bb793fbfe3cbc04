"""RDMA ports that cannot carry traffic."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.evidence import words
from pdchecks.fabric import Port, carries_rdma, ports
from pdchecks.facts.log import KernelEvent
from pdchecks.facts.net import LinkSpeed
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known, reason


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    unused = policy.values.link.unused
    for port in ports(node):
        yield _judge_port(port, port.device in unused)
    modules: dict[str, list[KernelEvent]] = {}
    for event in node.all(KernelEvent):
        # What asks for more power than the port gives is PD-PCIE-002's.
        if event.kind == "module-error" and "ower" not in event.detail:
            modules.setdefault(event.device, []).append(event)
    for device, events in modules.items():
        yield _judge_module(device, events)
    if not ports(node):
        yield from _unread(node)
    if not node.collected and not ports(node):
        # Pasted output of ethtool alone: what was asked about was meant to be up.
        for link in node.all(LinkSpeed):
            if link.detected is False and carries_rdma(node, link.netdev) is not False:
                yield _no_link(link)


def _judge_port(port: Port, unused: bool) -> Verdict:
    physical = known(port.physical)
    shown = _word(port.state) + (f", physical state {_word(physical)}" if physical else "")
    verify = (f"rdma link show {port.name}",)
    if isinstance(port.state, Unknown):
        why = f"the state of {port.name} could not be read: {reason(port.state)}"
        return Verdict(Status.UNKNOWN, port.name, why, quotes=port.quotes, verify=verify)
    if port.active:
        return Verdict(Status.PASS, port.name, f"port is {shown}", quotes=port.quotes)
    if unused:
        summary = f"port is {shown}; the policy says that it is not used"
        return Verdict(Status.INFO, port.name, summary, quotes=port.quotes, verify=verify)
    cause, remedy = _why(port, physical)
    status = Status.WARN if port.state == "ACTIVE_DEFER" else Status.FAIL
    cause = f"State {port.state}, physical state {physical or 'not printed'}. {cause}"
    return Verdict(status, port.name, f"port is {shown}", cause, port.quotes, verify, remedy)


def _judge_module(device: str, events: list[KernelEvent]) -> Verdict:
    """What the card says of the module in its port; the words are mlx5 events.c, mlx5_pme_error_to_string()."""
    said = "; ".join(dict.fromkeys(event.detail for event in events))
    return Verdict(
        Status.FAIL,
        f"{device} module",
        f"the card reports an error of the module or cable in its port: {said}",
        "The module does not answer, is of a kind that the card does not take, is too hot, or sits badly; the link may be up "
        "for now, or not come up at all.",
        tuple(event.quote for event in events[:4]),
        (f"dmesg -T | grep '{device}.*Port module event'", "ethtool -m <netdev>"),
        Remedy("Take the module out and put it back; then try another module, cable and port of the switch."),
    )


def _unread(node: NodeFacts) -> Iterator[Verdict]:
    """A tool that was asked and failed leaves the ports unseen, which is no word on the ports."""
    for tool in ("ibstat", "ibstatus", "ibv_devinfo", "rdma"):
        failed = [unread for unread in node.unread if unread.known and tool in words(unread.quote.command)]
        if failed:
            why = "; ".join(dict.fromkeys(unread.reason for unread in failed))
            yield Verdict(
                Status.UNKNOWN,
                "RDMA ports",
                f"no port was seen: {why}",
                "RoCE may work all the same: ibstat needs the management device /dev/infiniband/umad*, which RoCE and "
                "containers often lack; ibv_devinfo needs /dev/infiniband/uverbs* and the card's provider library.",
                tuple(unread.quote for unread in failed),
                ("rdma link show", "ls -l /dev/infiniband /sys/class/infiniband"),
            )


def _no_link(link: LinkSpeed) -> Verdict:
    return Verdict(
        Status.FAIL,
        link.netdev,
        "link is Down: ethtool detects none",
        "No cable, a dead module, the far port down, or speeds, FEC or auto-negotiation that do not fit.",
        (link.quote,),
        (f"ethtool {link.netdev}", f"ethtool -m {link.netdev}"),
        Remedy("Check cable, module and the switch port.", commands=(f"ip link set dev {link.netdev} up",)),
    )


def _word(state: object) -> str:
    """The state in ibstat's spelling: Active, Down, LinkUp."""
    return "".join(part.capitalize() for part in str(state).split("_"))


def _why(port: Port, physical: str | None) -> tuple[str, Remedy]:
    netdev = known(port.netdev) or "<netdev>"
    unused = f"If no cable is meant to be here, name {port.device} under link.unused in the policy."
    if port.state == "INIT" and port.layer == "InfiniBand":
        return (
            "The cable is fine, but no subnet manager has configured the port.",
            Remedy("Start a subnet manager in this fabric, on a switch or with opensm.", commands=("sminfo",)),
        )
    if physical in ("LINK_UP", "LINKUP"):
        return (
            "There is light on the cable, but the network interface is administratively down.",
            Remedy(
                f"Bring the interface up, and make that persistent in the node's network configuration. {unused}",
                commands=(f"ip link set dev {netdev} up",),
                survives_reboot=False,
            ),
        )
    if physical == "POLLING":
        return (
            "The port looks for a partner and finds none: no cable, a dead module, the far port down, or speeds, FEC "
            "or auto-negotiation that do not fit.",
            Remedy(f"Check cable, module and the switch port. {unused}", commands=(f"ethtool -m {netdev}",)),
        )
    return (
        "The port is switched off or nothing is plugged into it.",
        Remedy(
            f"Plug the cable in and bring the interface up. {unused}",
            commands=(f"ip link set dev {netdev} up", f"ethtool {netdev}"),
            survives_reboot=False,
        ),
    )


CHECK = NodeCheck(
    id="PD-LINK-001",
    topic="link.state",
    title="RDMA port is not active",
    severity=Severity.CRITICAL,
    tools=("rdma", "ibstat", "ibv_devinfo", "infiniband"),
    sources=("iproute2 rdma/link.c", "rdma-core infiniband-diags/ibstat.c"),
    need=Need.RDMA,
    judge=judge,
)
