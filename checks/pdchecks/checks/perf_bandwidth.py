"""Bandwidth tests against what the link could carry."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.fabric import netdevs, ports
from pdchecks.facts.net import LinkSpeed
from pdchecks.facts.perftest import PerftestRun
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known

# Smaller messages measure the message rate, not the link.
_LARGE_BYTES = 65_536
# The slowest Ethernet that RDMA cards are sold for.
_SLOWEST_GBPS = 10
_CAUSE = (
    "Something before or behind the link is slower: PCIe width or speed, a far NUMA node, relaxed ordering, a small "
    "MTU, a single queue pair, or loss and pauses on the path."
)
_REMEDY = Remedy(
    "Rule out, in this order: PCIe link (pcie.width), MTU (mtu.active), NUMA binding, loss and pauses (qos.*)."
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for run in node.all(PerftestRun):
        # Those of an active test are PD-PERF-002's.
        if not run.to and (best := largest(run)) is not None:
            yield compared(node, run, best, policy.values.perf.bandwidth_share)


def largest(run: PerftestRun) -> float | None:
    """The best average (Gbit/s) of messages that measure the link; None where there is none."""
    large = [rate for size, rate in run.averages.items() if size >= _LARGE_BYTES and rate > 0]
    return max(large, default=None)


def compared(node: NodeFacts, run: PerftestRun, best: float, share: float) -> Verdict:
    """What `best` (Gbit/s) says of a link that should carry that share."""
    rate = _rate(node, run.device)
    if run.both_ways and rate is not None:
        rate *= 2
    measured = f"{run.tool} measured {best:.1f} Gb/s"
    if rate is None and best < _SLOWEST_GBPS * share and not run.both_ways:
        summary = f"{measured}: less than {share:.0%} of even a {_SLOWEST_GBPS} Gb/s link"
        return Verdict(Status.WARN, run.device, summary, _CAUSE, (run.quote,), _verify(run), _REMEDY)
    if rate is None:
        why = "no tool in this evidence prints the rate of its link, so that there is nothing to compare with"
        return Verdict(Status.INFO, run.device, measured, why, (run.quote,), (f"rdma link show {run.device}/1",))
    reached = f"{measured}, {best / rate:.0%} of the link's {rate:g} Gb/s"
    if best >= share * rate:
        return Verdict(Status.PASS, run.device, reached, quotes=(run.quote,))
    return Verdict(
        Status.FAIL if best < rate / 2 else Status.WARN,
        run.device,
        f"{reached}; the policy expects {share:.0%}",
        _CAUSE,
        (run.quote,),
        _verify(run),
        _REMEDY,
    )


def _verify(run: PerftestRun) -> tuple[str, ...]:
    return (
        f"{run.tool.split()[0]} -d {run.device} -q 4 --report_gbits <peer>   # repeat with several queue pairs",
        "lspci -vv | grep LnkSta",
        f"rdma statistic show link {run.device}/1",
    )


def _rate(node: NodeFacts, device: str) -> float | None:
    for port in ports(node):
        if port.device == device and port.active and (rate := known(port.rate_gbps)) is not None:
            return rate
    own = {netdev for netdev, of in netdevs(node).items() if of == device}
    for fact in node.all(LinkSpeed):
        if fact.netdev in own and (speed := known(fact.speed_mbps)) is not None:
            return speed / 1000
    return None


CHECK = NodeCheck(
    id="PD-PERF-001",
    topic="perf.bandwidth",
    title="Measured bandwidth far below the link",
    severity=Severity.HIGH,
    tools=("perftest",),
    sources=("perftest src/perftest_parameters.c, src/perftest_resources.c",),
    on_demand=True,
    judge=judge,
)
