"""The whole way of a RoCE packet into its lossless priority, link by link; the first broken one has a name."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.counters import by_priority, nic_readings
from pdchecks.evidence import Quote
from pdchecks.fabric import judged, netdevs
from pdchecks.facts.host import Environment
from pdchecks.facts.qos import QosDscpMap, QosPfc, QosTrust, RoceTrafficClass
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.roce import traffic_class
from pdchecks.unknown import Unknown, known

_VARIABLES = ("NCCL_IB_TC", "UCX_IB_TRAFFIC_CLASS", "NVSHMEM_IB_TRAFFIC_CLASS")


@dataclass(slots=True)
class _Chain:
    """seen: links that hold, in words. broken: the first that does not. missing: what would show the others."""

    seen: list[str] = field(default_factory=list)
    broken: str = ""
    missing: list[str] = field(default_factory=list)
    quotes: list[Quote] = field(default_factory=list)

    def link(self, words: str, holds: bool, quote: Quote) -> None:
        # What lies behind a broken link proves nothing.
        if not self.broken:
            self.quotes.append(quote)
            if holds:
                self.seen.append(words)
            else:
                self.broken = words


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    shown = {fact.netdev for fact in node.all(QosTrust)} | {fact.netdev for fact in node.all(QosPfc)}
    shown |= {fact.netdev for fact in node.all(QosDscpMap)}
    for netdev in sorted(shown):
        if judged(node, netdev):
            yield _verdict(netdev, _chain(node, netdev, policy), policy)


def _chain(node: NodeFacts, netdev: str, policy: Policy) -> _Chain:
    fabric, chain = policy.values.fabric, _Chain()
    lossless = fabric.lossless_priority
    dscp = _mark(node, netdev, policy, chain)
    trusts = [fact for fact in node.all(QosTrust) if fact.netdev == netdev and not isinstance(fact.trust, Unknown)]
    for trust in trusts[:1]:
        chain.link(f"the NIC trusts {trust.trust}", trust.trust in (fabric.trust, "both"), trust.quote)
    if not trusts:
        chain.missing.append("trust (mlnx_qos, dcb app)")
    maps = [fact for fact in node.all(QosDscpMap) if fact.netdev == netdev and dscp in fact.priority]
    for dscp_map in maps[:1]:
        priority = dscp_map.priority[dscp]
        chain.link(f"DSCP {dscp} goes to priority {priority}", priority == lossless, dscp_map.quote)
    if not maps:
        chain.missing.append(f"priority of DSCP {dscp} (mlnx_qos, dcb app)")
    pfcs = [fact for fact in node.all(QosPfc) if fact.netdev == netdev]
    enabled = known(pfcs[0].enabled) if pfcs else None
    if enabled is None:
        chain.missing.append("PFC (mlnx_qos, dcb pfc)")
    else:
        on = ",".join(map(str, sorted(enabled))) or "no priority"
        chain.link(f"PFC is on for {on}", lossless in enabled, pfcs[0].quote)
    _counted(node, netdev, lossless, chain)
    return chain


def _mark(node: NodeFacts, netdev: str, policy: Policy, chain: _Chain) -> int:
    """The DSCP that programs give their packets: as they were told, else the policy's."""
    wanted = policy.values.fabric.dscp
    device = netdevs(node).get(netdev)
    for mark in node.all(RoceTrafficClass):
        if mark.device == device:
            chain.link(_said(mark.traffic_class), mark.traffic_class >> 2 == wanted, mark.quote)
            return mark.traffic_class >> 2
    for environment in node.all(Environment):
        for name in _VARIABLES:
            value = environment.values.get(name, "").strip("\"' ")
            if value.isdecimal() and len(value) < 4:
                chain.link(f"{name}: {_said(int(value))}", int(value) >> 2 == wanted, environment.quote)
                return int(value) >> 2
    chain.missing.append("traffic class of the program (NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS, cma_roce_tos)")
    return wanted


def _said(value: int) -> str:
    return f"traffic class {value} marks DSCP {value >> 2}"


def _counted(node: NodeFacts, netdev: str, lossless: int, chain: _Chain) -> None:
    for reading in nic_readings(node):
        if reading.name != netdev:
            continue
        moving = reading.moved(name for name in reading.values if f"prio{lossless}_" in name)
        counters = by_priority(moving.recent).get(lossless, {})
        packets = [counters[name] for name in ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes") if name in counters]
        if packets:
            names = [f"{way}_prio{lossless}_{unit}" for unit in ("packets", "bytes") for way in ("rx", "tx")]
            words = f"priority {lossless} counted {sum(packets[:2])} {moving.since}"
            if sum(packets):
                chain.link(words, True, moving.quote(names))
            else:
                # An idle fabric counts nothing, and that breaks nothing.
                chain.missing.append(f"traffic: {words}")
            return
    chain.missing.append(f"counters of priority {lossless} (ethtool -S)")


def _verdict(netdev: str, chain: _Chain, policy: Policy) -> Verdict:
    fabric = policy.values.fabric
    so_far = " -> ".join(chain.seen)
    if chain.broken:
        # The link's own check says how bad that is; this one says which link to mend first.
        return Verdict(
            Status.INFO,
            netdev,
            f"the way into priority {fabric.lossless_priority} breaks here: {chain.broken}"
            + (f"; before it: {so_far}" if so_far else ""),
            "Every link before it may be right: a packet is lossless only if mark, trust, map and PFC lead to one and "
            "the same priority. What lies behind the broken link was not judged.",
            tuple(chain.quotes),
            (f"mlnx_qos -i {netdev}", f"ethtool -S {netdev} | grep prio{fabric.lossless_priority}_"),
            Remedy(
                f"Mend this link first: traffic class {traffic_class(fabric.dscp)} (DSCP {fabric.dscp}), trust "
                f"{fabric.trust}, DSCP {fabric.dscp} to priority {fabric.lossless_priority}, PFC on it alone; then "
                "look again.",
                survives_reboot=False,
            ),
        )
    if chain.missing:
        found = f"; seen: {so_far}" if so_far else ""
        summary = f"the way into priority {fabric.lossless_priority} is not proved: {', '.join(chain.missing)}{found}"
        return Verdict(Status.INFO, netdev, summary, quotes=tuple(chain.quotes))
    return Verdict(Status.PASS, netdev, f"proved: {so_far}", quotes=tuple(chain.quotes))


CHECK = NodeCheck(
    id="PD-QOS-009",
    topic="qos.chain",
    title="The way into the lossless priority is broken",
    severity=Severity.HIGH,
    tools=("mlnx_qos", "dcb", "ethtool"),
    sources=("https://github.com/bytedance/byteps/issues/179", "mlnx-tools python/mlnx_qos, cma_roce_tos"),
    need=Need.ROCE,
    judge=judge,
)
