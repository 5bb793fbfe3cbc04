"""GID tables with holes, without a RoCE v2 entry, or without a routable address."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.fabric import netdevs, ports
from pdchecks.facts.log import GidUnreadable
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.gids import Table, tables
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown

_SPARSE = (
    "In a container or a pod the first slots belong to interfaces of other network namespaces; they read as zero, and "
    "their type cannot be read. A program that assumes index 3, or stops at the first slot it cannot read, breaks here."
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    down = {port.device for port in ports(node) if port.down}
    belongs = {device: netdev for netdev, device in netdevs(node).items()}
    for table in tables(node):
        if table.gids:
            yield _judge_table(table, belongs.get(table.device, "<netdev>"), table.device in down)
    unreadable = node.all(GidUnreadable)
    if unreadable:
        yield Verdict(
            Status.INFO,
            "GID table of a library",
            f"the table is sparse: {unreadable[0].words}",
            _SPARSE,
            tuple(fact.quote for fact in unreadable[:4]),
            ("show_gids",),
        )


def _judge_table(table: Table, netdev: str, down: bool) -> Verdict:
    indices = [gid.index for gid in table.gids]
    quotes = tuple(gid.quote for gid in table.gids)
    verify = (f"show_gids {table.device}",)
    address = Remedy(
        "Give the interface of this port an address, persistently; its GIDs follow from its addresses.",
        commands=(f"ip addr add <address>/<prefix> dev {netdev}",),
        survives_reboot=False,
    )
    versions = {gid.version for gid in table.gids if not isinstance(gid.version, Unknown)}
    if not table.whole and len(table.gids) < 2:
        return Verdict(Status.PASS, table.name, f"holds index {_listed(indices)}", quotes=quotes)
    if versions == {1}:
        return Verdict(
            Status.WARN,
            table.name,
            f"holds RoCE v1 GIDs only (index {_listed(indices)})",
            "The device or its driver was set to RoCE v1, which routers do not carry and DSCP does not mark.",
            quotes,
            (*verify, f"cma_roce_mode -d {table.device} -p {table.port}"),
            Remedy(
                "Let the device speak RoCE v2, at each boot.",
                commands=(f"cma_roce_mode -d {table.device} -p {table.port} -m 2",),
                survives_reboot=False,
            ),
        )
    if all(gid.link_local for gid in table.gids):
        status = Status.INFO if down else Status.WARN
        cause = "The interface has no IP address, so that RoCE v2 stays inside one Ethernet segment."
        return Verdict(status, table.name, "holds link-local GIDs only", cause, quotes, verify, address)
    holes = sorted(set(range(max(indices))) - set(indices))
    if holes:
        return Verdict(
            Status.INFO,
            table.name,
            f"the table is sparse: index {_listed(holes)} missing, {_listed(indices)} present",
            _SPARSE,
            quotes,
            verify,
        )
    return Verdict(Status.PASS, table.name, f"holds index {_listed(indices)} without holes", quotes=quotes)


def _listed(indices: list[int]) -> str:
    """0-3, 7: runs shortened."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


CHECK = NodeCheck(
    id="PD-GID-002",
    topic="gid.table",
    title="GID table with holes or without a routable RoCE v2 entry",
    severity=Severity.MEDIUM,
    tools=("show_gids", "ibv_devinfo", "infiniband"),
    sources=("https://github.com/NVIDIA/nccl/issues/1573", "mlnx-tools show_gids"),
    need=Need.ROCE,
    judge=judge,
)
