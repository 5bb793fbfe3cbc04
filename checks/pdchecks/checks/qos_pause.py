"""Who stops whom: pause frames received and sent, and pause storms."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.counters import Reading, by_priority, nic_readings
from pdchecks.fabric import judged
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_STORMS = ("tx_pause_storm_warning_events", "tx_pause_storm_error_events")
_GLOBAL = ("rx_pause_ctrl_phy", "tx_pause_ctrl_phy", "rx_global_pause", "tx_global_pause")
# Below this many times the other direction neither side stands out.
_STANDS_OUT = 2
_CAUSES = {
    "tx": "This host's receiver asks the network to stop: its PCIe path, memory, a missing relaxed ordering, ACS or "
    "a far NUMA node cannot take the packets as fast as they come.",
    "rx": "The network asks this host to stop: the switch or the receivers behind it are congested.",
    "both": "Both sides stop each other: many senders for one receiver, or PCIe back-pressure on both ends.",
}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for reading in nic_readings(node):
        if judged(node, reading.name):
            yield from _storms(reading, policy.values.counters.young_s)
            yield from _pauses(reading, policy)


def _storms(reading: Reading, young_s: int) -> Iterator[Verdict]:
    reading = reading.moved(_STORMS)
    storms = {name: reading.recent[name] for name in _STORMS if reading.recent.get(name)}
    if storms:
        listed = ", ".join(f"{name} {count}" for name, count in storms.items())
        yield Verdict(
            reading.at_most(Status.FAIL, young_s),
            reading.name,
            f"the NIC stopped the network for so long that its guard stepped in: {listed} {reading.since}",
            "The host did not take packets for the guard's whole time: a hung driver or machine, or a PCIe fault. A "
            "storm spreads through the fabric and stops traffic between other hosts.",
            (reading.quote(_STORMS),),
            (f"ethtool --show-tunable {reading.name} pfc-prevention-tout", "dmesg -T | grep mlx5_core"),
            Remedy("Find what blocked the host at that time; keep the guard and the switch's PFC watchdog on."),
        )


def _pauses(reading: Reading, policy: Policy) -> Iterator[Verdict]:
    counters = by_priority(reading.recent)
    way = {
        direction: sum(each.get(f"{direction}_pause", 0) for each in counters.values()) for direction in ("rx", "tx")
    }
    if not any("rx_pause" in each or "tx_pause" in each for each in counters.values()):
        return
    names = [name for name in reading.values if name.endswith(("_pause", "_pause_duration", "_xoff", "_xoff.nic"))]
    quotes = (reading.quote([*names, *(name for name in _GLOBAL if name in reading.values)]),)
    since = reading.since
    if not any(way.values()):
        yield Verdict(Status.PASS, reading.name, f"no priority was paused {since}", quotes=quotes)
        return
    side = "tx" if way["tx"] > _STANDS_OUT * way["rx"] else "rx" if way["rx"] > _STANDS_OUT * way["tx"] else "both"
    share = _share(reading, counters)
    counted = f"{way['tx']} pause frames sent and {way['rx']} received {since}"
    status = _status(share, side, policy)
    measured = "" if share is None else f", paused {share:.1%} of the time"
    yield Verdict(
        status,
        reading.name,
        f"{counted}{measured}",
        f"{_CAUSES[side]} Durations are microseconds.",
        quotes,
        (f"ethtool -S {reading.name} | grep pause; sleep 10; ethtool -S {reading.name} | grep pause",),
        None
        if status in (Status.INFO, Status.PASS)
        else Remedy(
            "Read the counters twice under load; then look at the local host (PCIe width, relaxed ordering, NUMA, ACS)."
            if side == "tx"
            else "Read the counters twice under load; then look at the switch's queues and at the receivers behind it."
        ),
    )


def _share(reading: Reading, counters: dict[int, dict[str, int]]) -> float | None:
    """The largest share of the interval that one priority was paused in one direction."""
    if reading.grown is None or not reading.seconds:
        return None
    longest = [each.get(f"{way}_pause_duration", 0) for each in counters.values() for way in ("rx", "tx")]
    return max(longest, default=0) / (reading.seconds * 1e6)


def _status(share: float | None, side: str, policy: Policy) -> Status:
    limits = policy.values.counters
    if share is not None:
        return Status.FAIL if share > limits.pause_fail else Status.WARN if share > limits.pause_warn else Status.INFO
    # A lossless class pauses by design; a host that is the one to stop the network deserves a look.
    return Status.WARN if side == "tx" else Status.INFO


CHECK = NodeCheck(
    id="PD-QOS-004",
    topic="qos.pause",
    title="Pause frames stop the traffic",
    severity=Severity.MEDIUM,
    tools=("ethtool",),
    sources=("linux Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst",),
    need=Need.ROCE,
    judge=judge,
)
