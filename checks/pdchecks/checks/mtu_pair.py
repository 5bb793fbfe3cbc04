"""Nodes whose RoCE path MTUs differ."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pdchecks.check import FleetCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.fabric import is_infiniband, netdevs, ports
from pdchecks.facts.net import Netdev
from pdchecks.facts.rdma import RdmaMtu
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.roce import path_mtu
from pdchecks.unknown import known


@dataclass(frozen=True, slots=True)
class _Mtu:
    node: str
    port: str
    bytes: int
    quote: Quote


def judge(nodes: Sequence[tuple[NodeFacts, Policy]]) -> Iterator[Verdict]:
    found = [mtu for node, _ in nodes for mtu in _mtus(node)]
    if len({mtu.node for mtu in found}) < 2:
        return
    # The fleet's MTU: the one that most ports have; of equals the larger, which is what the others should become.
    count = Counter(mtu.bytes for mtu in found)
    usual = max(count, key=lambda size: (count[size], size))
    odd = [mtu for mtu in found if mtu.bytes != usual]
    if not odd:
        quotes = tuple(mtu.quote for mtu in found)
        yield Verdict(Status.PASS, "RoCE path MTU", f"every port of {len(nodes)} nodes has {usual}", quotes=quotes)
    to_set = nodes[0][1].values.fabric.mtu.netdev
    for mtu in odd:
        like = next((o for o in found if o.bytes == usual and o.node != mtu.node), None)
        if like is None:
            continue
        yield Verdict(
            Status.FAIL,
            f"RoCE path MTU of {mtu.port}",
            f"{mtu.node} has {mtu.bytes}, {like.node} ({like.port}) has {usual}",
            "A library that takes the path MTU from its own port sends packets that the other side refuses: local "
            "length error, remote invalid request, reconnecting without end. perftest agrees on the smaller one "
            "first, so that a run of ib_write_bw that passes proves nothing here.",
            (mtu.quote, like.quote),
            (f"ibv_devinfo | grep active_mtu   # on {mtu.node} and on {like.node}",),
            Remedy(
                f"Give the interfaces of both nodes MTU {to_set}, persistently.",
                commands=(f"ip link set dev <netdev> mtu {to_set}",),
                survives_reboot=False,
                impact=Impact.LINK_FLAP,
            ),
            node=mtu.node,
            peer=like.node,
        )


def _mtus(node: NodeFacts) -> Iterator[_Mtu]:
    """What the verbs library prints of active ports; else what follows from the MTU of RoCE's interfaces."""
    down = {(port.device, port.port) for port in ports(node) if port.down}
    printed = [
        _Mtu(node.name, f"{fact.device}/{fact.port}", active, fact.quote)
        for fact in node.all(RdmaMtu)
        if (active := known(fact.active)) is not None
        and not is_infiniband(node, fact.device)
        and (fact.device, fact.port) not in down
    ]
    belongs = netdevs(node)
    yield from printed or (
        _Mtu(node.name, netdev.name, path_mtu(mtu), netdev.quote)
        for netdev in node.all(Netdev)
        if netdev.name in belongs
        and netdev.up is not False
        and (mtu := known(netdev.mtu)) is not None
        and not is_infiniband(node, belongs[netdev.name])
    )


CHECK = FleetCheck(
    id="PD-MTU-003",
    topic="mtu.pair",
    title="Nodes with different RoCE path MTUs",
    severity=Severity.HIGH,
    tools=("ibv_devinfo", "ip"),
    sources=("https://github.com/kvcache-ai/Mooncake/issues/3868",),
    judge=judge,
)
