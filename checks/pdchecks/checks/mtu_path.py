"""Paths between nodes that do not carry packets of RoCE's size unbroken."""

from collections.abc import Iterator

from pdchecks.active.marker import is_active
from pdchecks.check import NodeCheck, Verdict
from pdchecks.evidence import words
from pdchecks.facts.net import PathProbe
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.roce import netdev_mtu_for, path_mtu
from pdchecks.unknown import known

# IPv4: every host takes a packet of that size, RFC 791. Smaller ones only tell whether pings are answered at all.
_SMALL = 576
_NOT_PROVED = (
    "It proves the kernel's path in this direction, now: not the RoCE path MTU that a queue pair takes, not that RoCE's "
    "traffic class is treated the same, not the path at full load, nor another way of several equal ones."
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    wanted, to_set = policy.values.fabric.mtu.roce, policy.values.fabric.mtu.netdev
    probes = node.all(PathProbe)
    answered = {(probe.netdev, probe.peer) for probe in probes if probe.passed}
    for probe in probes:
        if probe.size > _SMALL or not probe.to:
            yield from _judge(probe, wanted, to_set, reachable=(probe.netdev, probe.peer) in answered)
    for unread in node.unread:
        command = unread.quote.command
        if is_active(command) and "ping" in words(command):
            subject = f"path to {words(command)[-1]}"
            yield Verdict(Status.UNKNOWN, subject, f"no DF ping: {unread.reason}", quotes=(unread.quote,))


def _judge(probe: PathProbe, wanted: int, to_set: int, *, reachable: bool) -> Iterator[Verdict]:
    """A probe smaller than RoCE's own packets proves nothing for RoCE, whether it passed or not."""
    whole = netdev_mtu_for(wanted)
    to = f"{probe.to} ({probe.peer})" if probe.to else probe.peer
    subject = f"path to {to}" + (f" by {probe.netdev}" if probe.netdev else "")
    if probe.passed:
        if probe.size >= whole or probe.to:
            summary = f"packets of {probe.size} bytes pass unbroken"
            yield Verdict(Status.PASS, subject, summary, _NOT_PROVED, (probe.quote,))
        return
    mtu = known(probe.mtu)
    if mtu is None and not probe.here:
        if probe.to and not reachable:
            summary = "not known how large packets may be: even small pings are not answered"
            cause = "Pings are filtered on the way or by the peer, or there is no way by this interface."
            yield Verdict(Status.UNKNOWN, subject, summary, cause, (probe.quote,), (f"ping -c 3 {probe.peer}",))
            return
        if probe.size < whole and not probe.to:
            return
    where = "this node's own interface" if probe.here else "the path"
    carries = (
        f"; {where} carries {mtu}, which gives RoCE {path_mtu(mtu)}" if mtu is not None else f": {where} drops them"
    )
    yield Verdict(
        Status.FAIL if probe.to and mtu is None and not probe.here else Status.WARN,
        subject,
        f"packets of {probe.size} bytes do not pass unbroken{carries}",
        "An interface or a switch port between the two has a smaller MTU. RoCE packets are never broken up: those "
        "that do not fit are lost without a word.",
        (probe.quote,),
        (f"ping -M do -s {probe.size - 28} {probe.peer}", f"tracepath -n {probe.peer}"),
        Remedy(f"Carry MTU {to_set} on every interface and switch port between the two.", impact=Impact.LINK_FLAP),
    )


CHECK = NodeCheck(
    id="PD-MTU-004",
    topic="mtu.netdev",
    title="Path does not carry packets of its ends' size",
    severity=Severity.HIGH,
    tools=("ping",),
    sources=("iputils ping_common.c", "linux include/rdma/ib_addr.h, iboe_get_mtu()"),
    on_demand=True,
    judge=judge,
)
