"""Counters that stand at their largest value: the true count is at least that."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.counters import WIDTHS, Reading, rdma_readings, saturated
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for reading in rdma_readings(node):
        limited = [name for name in WIDTHS if name in reading.values]
        if limited:
            yield _judge(reading, limited)


def _judge(reading: Reading, limited: list[str]) -> Verdict:
    full = [name for name in limited if saturated(name, reading.values[name])]
    if not full:
        summary = f"none of {len(limited)} counters of limited width is full"
        return Verdict(Status.PASS, reading.name, summary, quotes=(reading.quote(limited[:6]),))
    listed = ", ".join(f"{name} at {reading.values[name]}" for name in full)
    device, _, port = reading.name.partition("/")
    return Verdict(
        Status.WARN,
        reading.name,
        f"counters are saturated: {listed}; the true counts are at least that and no longer move",
        "These counters are 4 to 32 bits wide and stop at their largest value until they are cleared. Neither their "
        "value nor a difference of two readings says anything now.",
        (reading.quote(full),),
        (f"perfquery -x {device} {port}", f"grep '' /sys/class/infiniband/{device}/ports/{port}/counters/*"),
        Remedy(
            "Clear them, then compare two readings; on InfiniBand read the 64-bit ones (perfquery -x).",
            commands=(f"perfquery -R -C {device} -P {port}",),
            survives_reboot=False,
        ),
    )


CHECK = NodeCheck(
    id="PD-CNT-001",
    topic="counters.saturated",
    title="Counters are full and tell nothing",
    severity=Severity.LOW,
    tools=("infiniband", "counters", "perfquery"),
    sources=("InfiniBand Architecture Specification 16.1.3.5", "linux drivers/infiniband/core/sysfs.c"),
    need=Need.RDMA,
    judge=judge,
)
