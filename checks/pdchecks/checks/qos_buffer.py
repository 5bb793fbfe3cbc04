"""Whether the receive buffer of the lossless priority holds what still arrives after a pause was sent."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.converge import setting
from pdchecks.evidence import Quote
from pdchecks.fabric import judged, port_of
from pdchecks.facts.net import LinkSpeed, Netdev
from pdchecks.facts.qos import QosBuffer, QosPfc
from pdchecks.finding import Impact, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.roce import xoff_bytes
from pdchecks.unknown import Unknown, known


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    lossless = policy.values.fabric.lossless_priority
    lossy = {f.netdev for f in node.all(QosPfc) if not isinstance(f.enabled, Unknown) and lossless not in f.enabled}
    for fact in node.all(QosBuffer):
        if not judged(node, fact.netdev) or lossless >= len(fact.buffer_of):
            continue
        if fact.netdev in lossy:
            summary = f"PFC is off for priority {lossless}: no headroom is needed"
            yield Verdict(Status.INFO, fact.netdev, summary, quotes=(fact.quote,))
            continue
        number = fact.buffer_of[lossless]
        if number < len(fact.sizes):
            yield from _judge(node, fact, number, policy)


def _judge(node: NodeFacts, fact: QosBuffer, number: int, policy: Policy) -> Iterator[Verdict]:
    size = fact.sizes[number]
    speed, mtu, quotes = (
        _speed_mbps(node, fact.netdev),
        _mtu(node, fact.netdev, policy.values.fabric.mtu.netdev),
        (fact.quote,),
    )
    cable = known(fact.cable_m)
    metres = policy.values.fabric.cable_length_m if cable is None else cable
    if size and speed is None:
        return
    needed = (xoff_bytes(speed or 0, metres, mtu[0]) + mtu[0]) if speed else 0
    lossless = policy.values.fabric.lossless_priority
    at = f"{speed // 1000} Gb/s, {metres} m of cable and MTU {mtu[0]}" if speed else "any speed"
    if size >= needed and size:
        summary = f"buffer {number} of priority {lossless} holds {size} bytes; {at} need {needed}"
        yield Verdict(Status.PASS, fact.netdev, summary, quotes=(*quotes, *mtu[1]))
        return
    yield Verdict(
        Status.WARN if size else Status.FAIL,
        fact.netdev,
        f"buffer {number} of priority {lossless} holds {size} bytes, too few for {at}: {needed or 'some'} are needed",
        "After a pause frame left, packets already on the wire still arrive; what does not fit is lost although PFC "
        "is on.",
        (*quotes, *mtu[1]),
        (f"mlnx_qos -i {fact.netdev}", f"dcb buffer show dev {fact.netdev}"),
        setting(
            "qos",
            "Give the lossless buffer more of the port's memory, and tell the NIC the true cable length, at each boot.",
            f"mlnx_qos -i {fact.netdev} --cable_len {metres}",
            f"dcb buffer set dev {fact.netdev} buffer-size {number}:{needed or '<bytes>'}",
            impact=Impact.LINK_FLAP,
        ),
    )


def _speed_mbps(node: NodeFacts, netdev: str) -> int | None:
    for fact in node.all(LinkSpeed):
        if fact.netdev == netdev and (speed := known(fact.speed_mbps)) is not None:
            return speed
    port = port_of(node, netdev)
    rate = known(port.rate_gbps) if port and port.active else None
    return None if rate is None else int(rate * 1000)


def _mtu(node: NodeFacts, netdev: str, otherwise: int) -> tuple[int, tuple[Quote, ...]]:
    for fact in node.all(Netdev):
        if fact.name == netdev and (mtu := known(fact.mtu)) is not None:
            return mtu, (fact.quote,)
    return otherwise, ()


CHECK = NodeCheck(
    id="PD-QOS-007",
    topic="qos.buffer",
    title="Lossless receive buffer is too small",
    severity=Severity.MEDIUM,
    tools=("mlnx_qos", "dcb"),
    sources=("linux drivers/net/ethernet/mellanox/mlx5/core/en/port_buffer.c, calculate_xoff()",),
    need=Need.ROCE,
    judge=judge,
)
