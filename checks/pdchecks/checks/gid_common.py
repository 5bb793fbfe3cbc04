"""One node whose devices need different GID indices: a library that takes one index for all cannot be given one."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.gids import tables
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    usable = {table.name: {gid.index: gid for gid in table.usable} for table in tables(node)}
    usable = {name: indices for name, indices in usable.items() if indices}
    if len(usable) < 2:
        if usable and node.collected:
            quotes = tuple(gid.quote for indices in usable.values() for gid in indices.values())
            yield Verdict(Status.PASS, "GID index of all ports", "one port has usable GIDs", quotes=quotes)
        return
    common = set.intersection(*(set(indices) for indices in usable.values()))
    quotes = tuple(gid.quote for indices in usable.values() for gid in list(indices.values())[:1])
    if common:
        listed = ", ".join(map(str, sorted(common)))
        summary = f"index {listed} is RoCE v2 with a routable address on all {len(usable)} ports"
        yield Verdict(Status.PASS, "GID index of all ports", summary, quotes=quotes)
        return
    listed = ", ".join(f"{name}: {', '.join(map(str, sorted(indices)))}" for name, indices in usable.items())
    yield Verdict(
        Status.WARN,
        "GID index of all ports",
        f"no GID index is right on all ports ({listed})",
        "NCCL_IB_GID_INDEX and its sisters take one index for every device. Indices follow the order in which "
        "addresses were set, so that an extra address or a link that came back moves them on one port only.",
        quotes,
        ("show_gids",),
        Remedy(
            "Leave the index unset where the library finds a RoCE v2 GID by itself (NCCL since 2.21: index -1), or "
            "make the addresses of all ports alike and set the links down and up in turn.",
            commands=("unset NCCL_IB_GID_INDEX",),
            survives_reboot=False,
        ),
    )


CHECK = NodeCheck(
    id="PD-GID-003",
    topic="gid.consistency",
    title="Ports of one node need different GID indices",
    severity=Severity.MEDIUM,
    tools=("show_gids", "infiniband"),
    sources=("https://github.com/NVIDIA/nccl/pull/2183", "nccl src/transport/net_ib.cc"),
    need=Need.ROCE,
    judge=judge,
)
