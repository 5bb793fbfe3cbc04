"""Packets that the NIC threw away, above all of the lossless priority."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.counters import Reading, nic_readings
from pdchecks.fabric import judged
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Counters, Policy

_WHOLE_PORT = ("rx_discards_phy", "tx_discards_phy", "rx_discard_pkts", "rx_total_discard_pkts")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    lossless = policy.values.fabric.lossless_priority
    for reading in nic_readings(node):
        if judged(node, reading.name):
            yield from _judge(reading, lossless, policy.values.counters)


def _judge(reading: Reading, lossless: int, limits: Counters) -> Iterator[Verdict]:
    of_class = [f"rx_prio{lossless}_{what}" for what in ("discards", "buf_discard", "cong_discard")]
    of_class += [f"rx_discard_packets_cos{lossless}", f"tx_discard_packets_cos{lossless}"]
    seen = [name for name in (*of_class, *_WHOLE_PORT) if name in reading.values]
    if not seen:
        return
    values, since = reading.recent, reading.since
    quotes = (reading.quote(seen),)
    lost = {name: values[name] for name in of_class if values.get(name)}
    if lost:
        packets = values.get(f"rx_prio{lossless}_packets")
        much = (
            reading.grown is not None or packets is None or sum(lost.values()) > limits.retransmission_ratio * packets
        )
        yield Verdict(
            reading.at_most(Status.FAIL if much else Status.WARN, limits.young_s),
            reading.name,
            f"the lossless priority {lossless} lost packets {since}: {_listed(lost)}",
            "A lossless class that drops has PFC off somewhere, too little headroom for its speed and cable, or "
            "packets of another class in it.",
            quotes,
            (f"ethtool -S {reading.name} | grep -E 'discard|pause'", f"mlnx_qos -i {reading.name}"),
            Remedy(
                "Check trust, DSCP map, PFC and the receive buffer of this priority on NIC and switch (topics qos.*)."
            ),
        )
        return
    rest = {name: values[name] for name in _WHOLE_PORT if values.get(name)}
    if rest:
        yield Verdict(
            Status.WARN,
            reading.name,
            f"the port threw packets away {since}: {_listed(rest)}",
            "The port's receive buffer was full: more came in than PCIe and host took, and nothing stopped the sender.",
            quotes,
            (f"ethtool -S {reading.name} | grep -E 'discard|passed_thres|outbound_pci'",),
            Remedy("Check which priority the traffic is in and whether PFC holds for it; check PCIe width and speed."),
        )
        return
    yield Verdict(Status.PASS, reading.name, f"no discard {since} ({', '.join(seen)})", quotes=quotes)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


CHECK = NodeCheck(
    id="PD-QOS-005",
    topic="qos.discards",
    title="NIC discards packets",
    severity=Severity.HIGH,
    tools=("ethtool",),
    sources=("linux Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst",),
    need=Need.ROCE,
    judge=judge,
)
