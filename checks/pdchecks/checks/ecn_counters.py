"""Whether a device counts congestion marks and notifications at all: what is absent is not zero."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.counters import rdma_readings
from pdchecks.dcqcn import CNP_HANDLED, CNP_SENT, MARKED
from pdchecks.fabric import is_infiniband
from pdchecks.finding import Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# A listing with fewer counters than this was cut or filtered; then absence tells nothing.
_WHOLE_LISTING = 8


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for reading in rdma_readings(node):
        if is_infiniband(node, reading.name.partition("/")[0]):
            continue
        sides = {"notification": (*MARKED, *CNP_SENT), "reaction": CNP_HANDLED}
        there = {side: [name for name in names if name in reading.values] for side, names in sides.items()}
        if all(there.values()):
            shown = ", ".join(f"{name} {reading.values[name]}" for names in there.values() for name in names)
            quotes = (reading.quote([name for names in there.values() for name in names]),)
            yield Verdict(Status.PASS, reading.name, f"congestion is counted: {shown}", quotes=quotes)
        elif not any(there.values()) and len(reading.values) >= _WHOLE_LISTING and "grep -" not in reading.command:
            yield Verdict(
                Status.UNKNOWN,
                reading.name,
                f"np_cnp_sent, np_ecn_marked_roce_packets and rp_cnp_handled are absent among {len(reading.values)} "
                "counters: whether congestion control works cannot be seen here",
                "This device, its firmware or a bond does not offer them. Absent is not zero: ask the members of the "
                "bond, or the switch's own counters of marked packets.",
                (reading.quote(list(reading.values)[:6]),),
                (
                    f"rdma statistic show link {reading.name}",
                    f"ls /sys/class/infiniband/{reading.name.partition('/')[0]}/ports/1/hw_counters",
                ),
            )


CHECK = NodeCheck(
    id="PD-ECN-003",
    topic="ecn.counters",
    title="Congestion notifications are not counted",
    severity=Severity.LOW,
    tools=("infiniband", "hw_counters", "rdma"),
    sources=("linux drivers/infiniband/hw/mlx5/counters.c",),
    need=Need.ROCE,
    judge=judge,
)
