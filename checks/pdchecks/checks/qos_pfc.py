"""Priority flow control: on for the lossless priority, and only for it."""

import re
from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.converge import setting
from pdchecks.counters import Reading, by_priority, nic_readings
from pdchecks.evidence import Quote
from pdchecks.fabric import judged
from pdchecks.facts.qos import QosPfc
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown

_PRIORITIES = range(8)
_GREP = re.compile(r"\b[ef]?grep\s+(?:-\w+\s+)*(?P<pattern>'[^']*'|\"[^\"]*\"|\S+)")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    lossless = policy.values.fabric.lossless_priority
    told: set[str] = set()
    for fact in node.all(QosPfc):
        if not judged(node, fact.netdev):
            continue
        if isinstance(fact.enabled, Unknown):
            yield Verdict(
                Status.UNKNOWN,
                fact.netdev,
                f"PFC could not be read: {fact.enabled.reason}",
                "PFC is a property of the physical port; a VLAN, bond or virtual interface has none of its own.",
                (fact.quote,),
                ("mlnx_qos -i <physical interface>", "dcb pfc show dev <physical interface>"),
            )
        else:
            told.add(fact.netdev)
            yield _from_setting(fact, fact.enabled, lossless)
    for reading in nic_readings(node):
        if reading.name not in told and judged(node, reading.name):
            yield from _from_counters(reading, lossless)


def _from_setting(fact: QosPfc, enabled: frozenset[int], lossless: int) -> Verdict:
    shown = "priority " + ", ".join(map(str, sorted(enabled)))
    if enabled == {lossless}:
        return Verdict(Status.PASS, fact.netdev, f"PFC is on for {shown}", quotes=(fact.quote,))
    if lossless in enabled:
        return Verdict(
            Status.WARN,
            fact.netdev,
            f"PFC is on for {shown}; the policy has one lossless priority, {lossless}",
            "Each further lossless priority takes headroom from the same buffer, and lets more traffic stop the "
            "others.",
            (fact.quote,),
            (f"mlnx_qos -i {fact.netdev}",),
            _remedy(fact.netdev, lossless),
        )
    return _off(
        fact.netdev,
        f"PFC is on for {shown}; the policy's lossless priority {lossless} has it off"
        if enabled
        else f"PFC is off for every priority; the policy's lossless priority is {lossless}",
        lossless,
        fact.quote,
    )


def _from_counters(reading: Reading, lossless: int) -> Iterator[Verdict]:
    """mlx5 shows the pause counters of a priority only while PFC is on for it."""
    counters = by_priority(reading.values)
    if not any(f"rx_prio{p}_packets" in reading.values or f"rx_prio{p}_bytes" in reading.values for p in counters):
        return
    paused = [priority for priority in counters if f"rx_prio{priority}_pause" in reading.values]
    if lossless in paused:
        quote = reading.quote([f"rx_prio{lossless}_pause", f"tx_prio{lossless}_pause"])
        yield Verdict(
            Status.PASS, reading.name, f"PFC is on for priority {lossless}: it has pause counters", quotes=(quote,)
        )
    elif lossless in counters and _would_show(reading.command, lossless) and not _breaks_off(reading):
        others = f"only priority {', '.join(map(str, paused))} has them" if paused else "no priority has any"
        yield _off(
            reading.name,
            f"the pause counters of priority {lossless} are absent ({others}): PFC is off for it",
            lossless,
            reading.quote([f"rx_prio{lossless}_packets", f"rx_prio{lossless}_bytes"]),
        )


def _breaks_off(reading: Reading) -> bool:
    """Whether the list ends among the priorities: mlx5 prints their pause after their traffic, and then more."""
    return not _GREP.search(reading.command) and bool(by_priority({list(reading.values)[-1]: 0}))


def _would_show(command: str, priority: int) -> bool:
    """Whether a filter on the command would have let the pause counter through."""
    line = f"     rx_prio{priority}_pause: 0"
    for match in _GREP.finditer(command):
        pattern = match["pattern"].strip("'\"").replace(r"\|", "|")
        try:
            if not re.search(pattern, line, re.IGNORECASE):
                return False
        except re.error:
            return False
    return True


def _off(netdev: str, summary: str, lossless: int, quote: Quote) -> Verdict:
    return Verdict(
        Status.FAIL,
        netdev,
        summary,
        "Without PFC a full receiver drops RoCE packets instead of stopping the sender; go-back-N then sends whole "
        "windows again, which is slower than TCP.",
        (quote,),
        (f"mlnx_qos -i {netdev}", f"dcb pfc show dev {netdev}", f"ethtool -S {netdev} | grep prio{lossless}_pause"),
        _remedy(netdev, lossless),
    )


def _remedy(netdev: str, lossless: int) -> Remedy:
    bits = ",".join("1" if priority == lossless else "0" for priority in _PRIORITIES)
    return setting(
        "qos",
        f"Turn PFC on for priority {lossless} only, here and on the switch port, again at each boot and driver "
        "reload. If the fabric has another lossless priority, say so in the policy (fabric.lossless_priority).",
        f"mlnx_qos -i {netdev} --pfc {bits}",
        f"dcb pfc set dev {netdev} prio-pfc all:off {lossless}:on",
        impact=Impact.LINK_FLAP,
    )


CHECK = NodeCheck(
    id="PD-QOS-002",
    topic="qos.pfc",
    title="PFC is not on for the lossless priority alone",
    severity=Severity.HIGH,
    tools=("mlnx_qos", "dcb", "ethtool"),
    sources=(
        "linux Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst",
        "mlnx-tools python/mlnx_qos",
        "dcb-pfc(8)",
    ),
    need=Need.ROCE,
    judge=judge,
)
