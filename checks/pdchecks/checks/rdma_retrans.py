"""RDMA packets that had to be sent again."""

from collections.abc import Iterator, Mapping

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.counters import Reading, rdma_readings, total
from pdchecks.evidence import Quote
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# linux drivers/infiniband/hw: mlx5 counters.c, bnxt_re hw_counters.c, efa_verbs.c.
_EVENTS = (
    "local_ack_timeout_err",
    "packet_seq_err",
    "out_of_sequence",
    "implied_nak_seq_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "to_retransmits",
    "seq_err_naks_rcvd",
    "max_retry_exceeded",
    "oos_drop_count",
    "retrans_pkts",
    "retrans_timeout_events",
)
# What was carried meanwhile: packets where the device counts them, else requests.
_PACKETS = ("port_xmit_packets", "port_rcv_packets", "tx_pkts", "rx_pkts")
_REQUESTS = ("rx_write_requests", "rx_read_requests", "rx_atomic_requests")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for reading in rdma_readings(node):
        if total(reading.values, _EVENTS) is not None:
            yield _judge(reading, policy.values.counters.retransmission_ratio)


def _judge(reading: Reading, limit: float) -> Verdict:
    events = {name: reading.values[name] for name in _EVENTS if reading.values.get(name)}
    quotes = (reading.quote([name for name in (*_EVENTS, *_PACKETS, *_REQUESTS) if name in reading.values]),)
    if not events:
        return Verdict(Status.PASS, reading.name, "no retransmission, no gap, no acknowledge timeout", quotes=quotes)
    listed = ", ".join(f"{name} {count}" for name, count in events.items())
    if reading.grown is not None:
        grown = {name: reading.grown[name] for name in _EVENTS if reading.grown.get(name)}
        if not grown:
            return Verdict(Status.PASS, reading.name, f"{listed}; none grew {reading.since}", quotes=quotes)
        share = _share(reading.grown)
        listed = ", ".join(f"{name} +{count} (to {reading.values[name]})" for name, count in grown.items())
        if share is not None and share <= limit:
            return Verdict(Status.PASS, reading.name, f"{listed}: {share:.1e} of what was carried", quotes=quotes)
        return _lossy(Status.FAIL, reading.name, f"{listed} {reading.since}", quotes)
    share = _share(reading.values)
    if share is not None and share <= limit:
        return Verdict(Status.PASS, reading.name, f"{listed}: {share:.1e} of what was carried", quotes=quotes)
    measured = "" if share is None else f": {share:.1e} of what was carried, the policy allows {limit:.0e}"
    return _lossy(Status.WARN, reading.name, f"{listed} {reading.since}{measured}", quotes)


def _share(values: Mapping[str, int]) -> float | None:
    carried = total(values, _PACKETS) or total(values, _REQUESTS)
    return (total(values, _EVENTS) or 0) / carried if carried else None


def _lossy(status: Status, name: str, summary: str, quotes: tuple[Quote, ...]) -> Verdict:
    device = name.partition("/")[0]
    return Verdict(
        status,
        name,
        summary,
        "The path loses or reorders packets. An acknowledge timeout is the worst kind: the last packet or its answer "
        "was lost and the sender stood still until the timer ran out. Usual causes: the traffic is not in the "
        "lossless priority, PFC is off somewhere on the path, a bad cable, or an unequal MTU.",
        quotes,
        (f"rdma statistic show link {name}; sleep 10; rdma statistic show link {name}",),
        Remedy(
            "Follow the traffic from its DSCP to its priority to PFC on NIC and switch (topics qos.*), then look for "
            f"symbol and CRC errors on the interface of {device}.",
        ),
    )


CHECK = NodeCheck(
    id="PD-RDMA-003",
    topic="rdma.retrans",
    title="RDMA packets are sent again",
    severity=Severity.HIGH,
    tools=("infiniband", "hw_counters", "rdma"),
    sources=(
        "https://github.com/bytedance/byteps/issues/179",
        "linux drivers/infiniband/hw/mlx5/counters.c, bnxt_re/hw_counters.c",
    ),
    need=Need.RDMA,
    judge=judge,
)
