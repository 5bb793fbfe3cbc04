"""A switch that pauses but never marks: DCQCN has nothing to work on."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.counters import Reading, by_priority, nic_readings, rdma_readings, total
from pdchecks.dcqcn import CNP_HANDLED, MARKED
from pdchecks.fabric import is_infiniband, netdevs
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    belongs = netdevs(node)
    interfaces = nic_readings(node)
    for rdma in rdma_readings(node):
        device = rdma.name.partition("/")[0]
        marked = total(rdma.values, MARKED)
        if marked is None or is_infiniband(node, device):
            continue
        # That a switch marks at all is seen over the life of the counters, not in one interval.
        life = rdma.of_life()
        if marked:
            quote = rdma.quote(MARKED)
            yield Verdict(
                Status.PASS, rdma.name, f"{marked} packets arrived with a congestion mark {life.since}", quotes=(quote,)
            )
            continue
        own = [nic for nic in interfaces if belongs.get(nic.name) == device]
        # Evidence of one device and one interface belongs together even where nothing joins them.
        if not own and len(interfaces) == 1 and len(rdma_readings(node)) == 1 and interfaces[0].name not in belongs:
            own = interfaces
        for nic in own:
            yield from _against_pauses(rdma, nic, policy.values.fabric.lossless_priority)


def _against_pauses(rdma: Reading, nic: Reading, lossless: int) -> Iterator[Verdict]:
    paused = by_priority(nic.values).get(lossless, {}).get("rx_pause", 0)
    # A CNP handled says that another receiver saw marks: the switch does mark.
    if handled := total(rdma.values, CNP_HANDLED):
        summary = f"{handled} CNPs came from receivers that saw marks"
        yield Verdict(Status.PASS, rdma.name, summary, quotes=(rdma.quote(CNP_HANDLED),))
        return
    if not paused:
        summary = f"no packet arrived marked, and priority {lossless} of {nic.name} was never paused"
        yield Verdict(Status.INFO, rdma.name, summary, quotes=(rdma.quote(MARKED),))
        return
    yield Verdict(
        Status.WARN,
        rdma.name,
        f"the network paused priority {lossless} of {nic.name} {paused} times, but no packet arrived with a "
        "congestion mark",
        "ECN is not configured on the switch's RoCE queue (or its threshold lies above that of PFC), or packets "
        "leave the sender without ECT bits. DCQCN is driven by these marks: without them PFC alone regulates, and it "
        "stops whole links.",
        (rdma.quote((*MARKED, *CNP_HANDLED)), nic.quote([f"rx_prio{lossless}_pause", f"tx_prio{lossless}_pause"])),
        ("show the ECN or WRED profile of the RoCE queue on the switch", f"rdma statistic show link {rdma.name}"),
        Remedy(
            "On the switch, mark with ECN on the queue of the lossless class, with a lower threshold than the one at "
            "which PFC pauses; do not turn ECN off in favour of DCQCN, which needs it."
        ),
    )


CHECK = NodeCheck(
    id="PD-ECN-004",
    topic="ecn.switch",
    title="Switch pauses but does not mark",
    severity=Severity.MEDIUM,
    tools=("infiniband", "hw_counters", "rdma"),
    sources=("Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015",),
    need=Need.ROCE,
    judge=judge,
)
