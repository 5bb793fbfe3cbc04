"""Nodes on which the same GID index means different things."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pdchecks.check import FleetCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.facts.host import Environment
from pdchecks.facts.rdma import Gid
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.gids import gid_variables, tables
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


@dataclass(frozen=True, slots=True)
class _Port:
    node: str
    name: str
    usable: dict[int, Gid]

    @property
    def listed(self) -> str:
        return ", ".join(map(str, sorted(self.usable)))

    @property
    def quotes(self) -> tuple[Quote, ...]:
        return tuple(gid.quote for gid in self.usable.values())


def judge(nodes: Sequence[tuple[NodeFacts, Policy]]) -> Iterator[Verdict]:
    ports = [
        _Port(node.name, table.name, {gid.index: gid for gid in table.usable})
        for node, _ in nodes
        for table in tables(node)
        if table.usable
    ]
    if len({port.node for port in ports}) < 2:
        return
    first = ports[0].node
    same_names = {port.name for port in ports if port.node == first}
    fixed = any(list(gid_variables(fact.values)) for node, _ in nodes for fact in node.all(Environment))
    for port in ports:
        if port.node == first:
            continue
        # Against the port of the same name on the first node, else against all of its ports.
        others = [o for o in ports if o.node == first and (o.name == port.name or port.name not in same_names)]
        yield from _compare(port, others, fixed)


def _compare(port: _Port, others: list[_Port], fixed: bool) -> Iterator[Verdict]:
    fitting = [other for other in others if other.usable.keys() & port.usable.keys()]
    if fitting:
        index = sorted(fitting[0].usable.keys() & port.usable.keys())
        summary = f"index {', '.join(map(str, index))} is RoCE v2 with a routable address on both nodes"
        yield Verdict(
            Status.PASS,
            f"GID index of {port.name}",
            summary,
            quotes=(*fitting[0].quotes, *port.quotes),
            node=others[0].node,
            peer=port.node,
        )
        return
    other = others[0]
    yield Verdict(
        Status.FAIL if fixed else Status.WARN,
        f"GID index of {port.name}",
        f"no common GID index: {other.node} has index {other.listed} ({other.name}), {port.node} has index "
        f"{port.listed} ({port.name})",
        "One index for all hosts (NCCL_IB_GID_INDEX, MC_GID_INDEX, UCX_IB_GID_INDEX) points to a link-local, a v1 or "
        "no GID on one of them. Indices follow the order in which addresses were set, and differ in containers.",
        (*other.quotes, *port.quotes),
        (f"show_gids   # on {other.node} and on {port.node}",),
        Remedy(
            "Give each host its own index, or leave it unset where the library chooses by itself (NCCL since 2.21).",
            commands=(
                f"export NCCL_IB_GID_INDEX={min(other.usable)}   # on {other.node}",
                f"export NCCL_IB_GID_INDEX={min(port.usable)}   # on {port.node}",
            ),
            survives_reboot=False,
        ),
        node=other.node,
        peer=port.node,
    )


CHECK = FleetCheck(
    id="PD-GID-004",
    topic="gid.consistency",
    title="Nodes need different GID indices",
    severity=Severity.HIGH,
    tools=("show_gids",),
    sources=("https://github.com/NVIDIA/nccl/issues/551", "https://github.com/NVIDIA/nccl/pull/2183"),
    judge=judge,
)
