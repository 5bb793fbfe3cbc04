"""Receivers that had no buffer posted, and packets that arrived damaged."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.counters import Reading, rdma_readings, total
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# mlx5, bnxt_re, efa; what the far side told us (rnr) and what we ourselves dropped.
_NO_BUFFER = ("out_of_buffer", "rx_out_of_buffer", "rnr_nak_retry_err", "rnr_naks_rcvd", "rx_drops")
_DAMAGED = ("rx_icrc_encapsulated", "rx_roce_errors", "rx_roce_discards", "tx_roce_discards")
_CARRIED = ("port_xmit_packets", "port_rcv_packets", "tx_pkts", "rx_pkts")
_REQUESTS = ("rx_write_requests", "rx_read_requests", "rx_atomic_requests")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for reading in rdma_readings(node):
        if total(reading.values, (*_NO_BUFFER, *_DAMAGED)) is not None:
            yield _judge(reading, policy.values.counters.retransmission_ratio)


def _judge(reading: Reading, limit: float) -> Verdict:
    names = [name for name in (*_NO_BUFFER, *_DAMAGED) if reading.values.get(name)]
    quotes = (reading.quote([name for name in (*_NO_BUFFER, *_DAMAGED) if name in reading.values]),)
    if not names:
        return Verdict(Status.PASS, reading.name, "no packet dropped for want of a buffer, none damaged", quotes=quotes)
    listed = ", ".join(f"{name} {reading.values[name]}" for name in names)
    growing = reading.grown is not None and any(reading.grown.get(name) for name in names)
    if reading.grown is not None and not growing:
        return Verdict(Status.PASS, reading.name, f"{listed}; none grew {reading.since}", quotes=quotes)
    values = reading.recent
    carried = total(values, _CARRIED) or total(values, _REQUESTS)
    if carried and (total(values, names) or 0) / carried <= limit:
        return Verdict(Status.PASS, reading.name, f"{listed} of {carried} carried", quotes=quotes)
    damaged = any(name in _DAMAGED for name in names)
    return Verdict(
        Status.FAIL if growing else Status.WARN,
        reading.name,
        f"{listed}, and growing" if growing else f"{listed} {reading.since}",
        "Packets arrive damaged: a bad cable, module or switch port, or something on the way that rewrites them."
        if damaged
        else "The receiving program posts its buffers too late or too few, or too many senders ask one receiver: "
        "the sender is told to wait and tries again.",
        quotes,
        (f"rdma statistic show link {reading.name}; sleep 10; rdma statistic show link {reading.name}",),
        Remedy(
            "Look for symbol and CRC errors with ethtool -S; replace cable and module."
            if damaged
            else "Raise the depth of the program's receive queue, or spread the senders; this is no fault of the link."
        ),
    )


CHECK = NodeCheck(
    id="PD-RDMA-004",
    topic="rdma.drops",
    title="RDMA packets dropped at the receiver",
    severity=Severity.MEDIUM,
    tools=("infiniband", "hw_counters", "rdma"),
    sources=("linux drivers/infiniband/hw/mlx5/counters.c, bnxt_re/hw_counters.c, efa/efa_verbs.c",),
    need=Need.RDMA,
    judge=judge,
)
