"""GID tables as the evidence shows them, port by port."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pdchecks.fabric import is_infiniband
from pdchecks.facts.rdma import EmptyGid, Gid
from pdchecks.nodefacts import NodeFacts
from pdchecks.unknown import Unknown, known

# The variables by which libraries take one GID index for every device.
VARIABLES = ("NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX", "MC_GID_INDEX", "NVSHMEM_IB_GID_INDEX", "RCCL_IB_GID_INDEX")


@dataclass(frozen=True, slots=True)
class Table:
    """One port's table. empty: slots that were looked at and hold nothing. whole: its tool prints every GID."""

    device: str
    port: int
    gids: tuple[Gid, ...]
    empty: tuple[EmptyGid, ...]
    whole: bool

    @property
    def name(self) -> str:
        return f"{self.device}/{self.port}"

    @property
    def netdevs_printed(self) -> bool:
        return any(known(gid.netdev) for gid in self.gids)

    @property
    def usable(self) -> list[Gid]:
        """RoCE v2 GIDs that routers carry and whose interface is here; IPv4 before IPv6, in the order of the table."""
        routable = [
            gid
            for gid in self.gids
            if gid.version == 2
            and not gid.link_local
            and not (self.netdevs_printed and isinstance(gid.netdev, Unknown))
        ]
        return [gid for gid in routable if gid.ipv4] or routable


def tables(node: NodeFacts) -> list[Table]:
    """The tables of every RoCE port that has an entry or an empty slot in the evidence."""
    gids: dict[tuple[str, int], dict[int, Gid]] = {}
    empty: dict[tuple[str, int], dict[int, EmptyGid]] = {}
    for gid in node.all(Gid):
        device = known(gid.device) or "(device not named)"
        slot = gids.setdefault((device, gid.port), {})
        slot[gid.index] = _fuller(slot.get(gid.index), gid)
    for hole in node.all(EmptyGid):
        empty.setdefault((hole.device, hole.port), {})[hole.index] = hole
    return [
        Table(
            device,
            port,
            tuple(sorted(gids.get((device, port), {}).values(), key=lambda gid: gid.index)),
            tuple(empty.get((device, port), {}).values()),
            any("show_gids" in gid.quote.command for gid in gids.get((device, port), {}).values()),
        )
        for device, port in dict.fromkeys([*gids, *empty])
        if not is_infiniband(node, device)
    ]


def _fuller(one: Gid | None, other: Gid) -> Gid:
    """Of two descriptions of one slot the one that names type and interface."""
    if one is None:
        return other
    return max((one, other), key=lambda gid: sum(known(value) is not None for value in (gid.version, gid.netdev)))


def gid_variables(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables that fix a GID index; a negative one or `auto` leaves the choice to the library."""
    for name in VARIABLES:
        value = values.get(name, "").strip("\"' ")
        if value.isdecimal() and len(value) < 4:
            yield name, value
