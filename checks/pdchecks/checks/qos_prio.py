"""The way of a packet into its priority: traffic class of the program, DSCP, map of the NIC, counters that move."""

from collections.abc import Iterator, Mapping

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.converge import setting
from pdchecks.counters import Reading, by_priority, nic_readings
from pdchecks.evidence import Quote
from pdchecks.fabric import judged
from pdchecks.facts.host import Environment
from pdchecks.facts.qos import QosDscpMap, RoceTrafficClass
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_VARIABLES = ("NCCL_IB_TC", "UCX_IB_TRAFFIC_CLASS", "MC_IB_TC", "NVSHMEM_IB_TRAFFIC_CLASS")
# Less than this on priority 0 can be ssh and monitoring.
_MUCH_BYTES = 1_000_000_000
_MUCH_PACKETS = 1_000_000


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    lossless, dscp = policy.values.fabric.lossless_priority, policy.values.fabric.dscp
    for fact in node.all(QosDscpMap):
        if judged(node, fact.netdev) and dscp in fact.priority:
            yield _from_map(fact, dscp, lossless)
    for environment in node.all(Environment):
        for name in _VARIABLES:
            value = environment.values.get(name, "").strip("\"' ")
            if value.isdecimal() and len(value) < 4:
                yield _from_class(name, int(value), dscp, environment.quote)
    for mark in node.all(RoceTrafficClass):
        yield _from_class(mark.device, mark.traffic_class, dscp, mark.quote)
    for reading in nic_readings(node):
        if judged(node, reading.name):
            yield from _from_counters(reading, lossless, dscp)


def _from_map(fact: QosDscpMap, dscp: int, lossless: int) -> Verdict:
    priority = fact.priority[dscp]
    if priority == lossless:
        return Verdict(Status.PASS, fact.netdev, f"DSCP {dscp} goes to priority {priority}", quotes=(fact.quote,))
    return Verdict(
        Status.FAIL,
        fact.netdev,
        f"DSCP {dscp} goes to priority {priority}, the lossless one is {lossless}",
        "Packets that the program marks for the lossless class are counted and queued as another, where PFC does not "
        "hold.",
        (fact.quote,),
        (f"mlnx_qos -i {fact.netdev}",),
        setting(
            "qos",
            f"Map DSCP {dscp} to priority {lossless}, at each boot.",
            f"mlnx_qos -i {fact.netdev} --dscp2prio set,{dscp},{lossless}",
            f"dcb app replace dev {fact.netdev} dscp-prio {dscp}:{lossless}",
            impact=Impact.LINK_FLAP,
        ),
    )


def _from_class(name: str, value: int, dscp: int, quote: Quote) -> Verdict:
    """DSCP is the upper six bits of the traffic class; the lower two are ECN, of which ECT must be set."""
    wanted = dscp << 2 | 2
    verify = ("cma_roce_tos -d <device>", "cat /sys/class/infiniband/<device>/tc/1/traffic_class")
    remedy = Remedy(
        f"Use traffic class {wanted}: DSCP {dscp} and an ECN-capable mark.",
        commands=(f"export {name}={wanted}" if name.isupper() else f"cma_roce_tos -d {name} -t {wanted}",),
        survives_reboot=False,
        impact=Impact.RESTART_ENGINE,
    )
    if value >> 2 != dscp:
        return Verdict(
            Status.FAIL,
            name,
            f"traffic class {value} marks packets with DSCP {value >> 2}, the policy says {dscp}",
            "NIC and switch put packets of that mark into another class than the lossless one, by default priority 0.",
            (quote,),
            verify,
            remedy,
        )
    if value & 3 == 0:
        return Verdict(
            Status.WARN,
            name,
            f"traffic class {value} is DSCP {dscp} without an ECN mark: switches drop instead of marking it",
            "With both ECN bits zero a packet says that its sender does not understand congestion marks.",
            (quote,),
            verify,
            remedy,
        )
    return Verdict(Status.PASS, name, f"traffic class {value} is DSCP {dscp} with an ECN mark", quotes=(quote,))


def _from_counters(reading: Reading, lossless: int, dscp: int) -> Iterator[Verdict]:
    counters = by_priority(reading.recent)
    if reading.grown is not None and not _busy(counters, lossless):
        reading = reading.of_life()
        counters = by_priority(reading.values)
    if lossless not in counters or 0 not in counters or lossless == 0:
        return
    unit = "bytes" if "rx_bytes" in counters[0] or "tx_bytes" in counters[0] else "packets"
    moved, default = _sum(counters[lossless], unit), _sum(counters[0], unit)
    if moved is None or default is None:
        return
    names = [f"{way}_prio{p}_{unit}" for p in (0, lossless) for way in ("rx", "tx")]
    quotes = (reading.quote(names),)
    if moved:
        yield Verdict(
            Status.PASS, reading.name, f"priority {lossless} carried {moved} {unit} {reading.since}", quotes=quotes
        )
        return
    rdma = [value for name, value in reading.values.items() if "vport_rdma_unicast" in name]
    if default < (_MUCH_BYTES if unit == "bytes" else _MUCH_PACKETS) or (rdma and not any(rdma)):
        return
    yield Verdict(
        Status.WARN,
        reading.name,
        f"all traffic is on priority 0 ({default} {unit}); priority {lossless} carried none {reading.since}",
        "RoCE packets reach or leave this NIC without the mark of the lossless class: the program sets no traffic "
        "class, or the NIC does not trust DSCP. PFC of the lossless priority protects nothing then.",
        quotes,
        (f"ethtool -S {reading.name} | grep -E 'prio({lossless}|0)_(bytes|packets)'", f"mlnx_qos -i {reading.name}"),
        Remedy(
            f"Give the program traffic class {dscp << 2 | 2} (NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS, cma_roce_tos) and let "
            "the NIC trust DSCP.",
            commands=(f"export NCCL_IB_TC={dscp << 2 | 2}", f"mlnx_qos -i {reading.name} --trust dscp"),
            survives_reboot=False,
            impact=Impact.RESTART_ENGINE,
        ),
    )


def _busy(counters: Mapping[int, Mapping[str, int]], lossless: int) -> bool:
    """Whether an interval carried enough to tell which priority the traffic takes."""
    default, own = counters.get(0, {}), counters.get(lossless, {})
    much = (_sum(default, "bytes") or 0) >= _MUCH_BYTES or (_sum(default, "packets") or 0) >= _MUCH_PACKETS
    return much or bool(_sum(own, "bytes") or _sum(own, "packets"))


def _sum(counters: Mapping[str, int], unit: str) -> int | None:
    there = [counters[name] for name in (f"rx_{unit}", f"tx_{unit}") if name in counters]
    return sum(there) if there else None


CHECK = NodeCheck(
    id="PD-QOS-003",
    topic="qos.prio",
    title="RoCE traffic misses the lossless priority",
    severity=Severity.HIGH,
    tools=("ethtool", "mlnx_qos", "dcb"),
    sources=("https://github.com/bytedance/byteps/issues/179", "mlnx-tools python/mlnx_qos, cma_roce_tos"),
    need=Need.ROCE,
    judge=judge,
)
