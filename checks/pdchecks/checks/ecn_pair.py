"""Congestion notifications that one node sends and no other receives."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pdchecks.check import FleetCheck, Verdict
from pdchecks.counters import Reading, rdma_readings, total
from pdchecks.dcqcn import CNP_HANDLED, CNP_IGNORED, CNP_SENT
from pdchecks.evidence import Quote
from pdchecks.fabric import is_infiniband
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# A handful may be lost, or be for a node that is not in the evidence.
_ENOUGH = 100


@dataclass(frozen=True, slots=True)
class _Counts:
    node: str
    port: str
    sent: int
    came: int
    since: str
    quote: Quote


def judge(nodes: Sequence[tuple[NodeFacts, Policy]]) -> Iterator[Verdict]:
    counts = [found for node, _ in nodes for reading in rdma_readings(node) if (found := _counts(node, reading))]
    if len({one.node for one in counts}) < 2:
        return
    came = sum(one.came for one in counts)
    for one in counts:
        others = [other for other in counts if other.node != one.node]
        if one.sent < _ENOUGH or not others:
            continue
        if came:
            said = f"{one.sent} congestion notifications sent, {came} came to the nodes of this evidence"
            yield Verdict(Status.PASS, one.port, said, quotes=(one.quote,), node=one.node)
            continue
        cnp = nodes[0][1].values.fabric.cnp
        yield Verdict(
            Status.WARN,
            one.port,
            f"{one.sent} congestion notifications sent {one.since}; none came to {', '.join(o.node for o in others[:4])}",
            "The receiver answers marks, and its answers get lost: the class of CNPs is dropped on the way (a switch "
            "without a queue for their DSCP), or the senders do not count because their reaction point is off.",
            (one.quote, *(other.quote for other in others[:3])),
            (
                f"rdma statistic show link {one.port}   # on {one.node}: np_cnp_sent",
                "rdma statistic show | grep cnp   # on the senders: rp_cnp_handled, rp_cnp_ignored",
            ),
            Remedy(
                f"Give CNPs (DSCP {cnp.dscp}, priority {cnp.priority}) a queue of their own with strict priority on "
                "every switch of the way, and the reaction point on the senders."
            ),
            node=one.node,
            peer=others[0].node,
        )


def _counts(node: NodeFacts, reading: Reading) -> _Counts | None:
    """None where the port does not count both sides: absent is not zero."""
    names = (*CNP_SENT, *CNP_HANDLED, *CNP_IGNORED)
    if is_infiniband(node, reading.name.partition("/")[0]):
        return None
    if not any(name in reading.values for name in CNP_SENT) or not any(name in reading.values for name in CNP_HANDLED):
        return None
    moving = reading.moved(names)
    came = total(moving.recent, (*CNP_HANDLED, *CNP_IGNORED)) or 0
    sent = total(moving.recent, CNP_SENT) or 0
    return _Counts(node.name, reading.name, sent, came, moving.since, moving.quote(names))


CHECK = FleetCheck(
    id="PD-ECN-005",
    topic="ecn.pair",
    title="Congestion notifications get lost on the way",
    severity=Severity.HIGH,
    tools=("hw_counters", "rdma"),
    sources=("linux drivers/infiniband/hw/mlx5/counters.c", "RoCEv2 annex A17.9.3, congestion notification packet"),
    judge=judge,
)
