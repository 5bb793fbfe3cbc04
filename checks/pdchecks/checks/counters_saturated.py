"""Counters that stand at their largest value: the true count is at least that."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.counters import Reading, rdma_readings
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# Width in bits of the InfiniBand port counters (PortCounters attribute, InfiniBand specification 16.1.3.5).
_BITS = {
    "symbol_error": 16,
    "link_error_recovery": 8,
    "link_downed": 8,
    "port_rcv_errors": 16,
    "port_rcv_remote_physical_errors": 16,
    "port_rcv_switch_relay_errors": 16,
    "port_xmit_discards": 16,
    "port_xmit_constraint_errors": 8,
    "port_rcv_constraint_errors": 8,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
    "VL15_dropped": 16,
    "port_xmit_data": 32,
    "port_rcv_data": 32,
    "port_xmit_packets": 32,
    "port_rcv_packets": 32,
    "port_xmit_wait": 32,
}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for reading in rdma_readings(node):
        limited = [name for name in _BITS if name in reading.values]
        if limited:
            yield _judge(reading, limited)


def _judge(reading: Reading, limited: list[str]) -> Verdict:
    full = [name for name in limited if reading.values[name] == 2 ** _BITS[name] - 1]
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
