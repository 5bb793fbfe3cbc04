"""Nodes whose GIDs cannot talk to each other: another RoCE version, or no way from rail to rail."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network

from pdchecks.check import FleetCheck, Verdict
from pdchecks.fabric import carries_rdma, netdevs
from pdchecks.facts.net import Netdev, RouteEntry
from pdchecks.facts.rdma import Gid
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.gids import tables
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown


def judge(nodes: Sequence[tuple[NodeFacts, Policy]]) -> Iterator[Verdict]:
    first, *others = [_Rails(node) for node, _ in nodes]
    # Against the first alone: of many nodes, all pairs are too many to look at and to read.
    for other in others:
        if first.only_v1 and other.usable:
            yield _versions(first, other)
        elif other.only_v1 and first.usable:
            yield _versions(other, first)
        elif first.usable and other.usable:
            yield from _ways(first, other)


class _Rails:
    """A node and its GIDs: all, and those that RoCE v2 can use."""

    def __init__(self, node: NodeFacts) -> None:
        self.node = node
        self.name = node.name
        self.all = [gid for table in tables(node) for gid in table.gids]
        self.usable = [gid for table in tables(node) for gid in table.usable]
        self.only_v1 = bool(self.all) and all(gid.version == 1 for gid in self.all)


def _versions(old: _Rails, new: _Rails) -> Verdict:
    return Verdict(
        Status.FAIL,
        "RoCE version",
        f"{old.name} has GIDs of RoCE v1 only, {new.name} uses RoCE v2",
        "RoCE v1 is an Ethernet protocol and v2 is UDP: the two do not understand each other's packets.",
        (old.all[0].quote, new.usable[0].quote),
        (f"show_gids   # on {old.name} and on {new.name}",),
        Remedy(
            "Let the devices of both nodes use RoCE v2: a routable IPv4 address on the interface, and v2 as the "
            "default of rdma_cm.",
            commands=("cma_roce_mode -d <device> -m 2",),
            survives_reboot=False,
        ),
        node=old.name,
        peer=new.name,
    )


def _ways(one: _Rails, other: _Rails) -> Iterator[Verdict]:
    for source, target in ((one, other), (other, one)):
        gids = target.usable
        addresses = [gid.ipv4 for gid in gids if gid.ipv4]
        exits = {address: _exit(source.node, address) for address in addresses}
        if not addresses or None in exits.values():
            continue
        rails = sorted({name for name in exits.values() if name and _is_rail(source.node, name)})
        object_ = f"way to the rails of {target.name}"
        if rails:
            found = f"reached by {', '.join(rails)}"
            quotes = tuple(gid.quote for gid in gids[:2])
            yield Verdict(Status.PASS, object_, found, quotes=quotes, node=source.name, peer=target.name)
            continue
        wrong = ", ".join(f"{address} by {name or 'no interface'}" for address, name in exits.items())
        yield Verdict(
            Status.WARN,
            object_,
            f"{source.name} reaches no rail of {target.name} by a rail of its own: {wrong}",
            "The connection manager asks the routing table. It answers with an interface that carries no RoCE, or "
            "with none: the queue pair is refused, or packets with the right GID get no answer.",
            (*(entry.quote for entry in source.node.all(RouteEntry)[:3]), gids[0].quote),
            (f"ip route get {addresses[0]}   # on {source.name}",),
            Remedy(
                "Give the rails of both nodes addresses in common subnets, rail by rail, or a route from rail to rail.",
                commands=(f"ip route add {addresses[0]} via <gateway of the rail> dev <rail>   # on {source.name}",),
                survives_reboot=False,
            ),
            node=source.name,
            peer=target.name,
        )


def _is_rail(node: NodeFacts, name: str) -> bool:
    """Every interface that carries RoCE, a VLAN too, has GIDs of its own."""
    owners = {gid.netdev for gid in node.all(Gid)}
    return name in owners or (any(isinstance(o, Unknown) for o in owners) and carries_rdma(node, name) is not False)


def _exit(node: NodeFacts, address: IPv4Address) -> str | None:
    """The interface by which packets to the address leave; empty for none, None where the routes are not known."""
    best, name = -1, ""
    for entry in node.all(RouteEntry):
        prefix = _prefix(entry.destination)
        if prefix is not None and address in prefix and prefix.prefixlen > best:
            best, name = prefix.prefixlen, entry.netdev
    if best >= 0 or node.all(RouteEntry):
        return name
    for netdev in node.all(Netdev):
        if netdev.name in netdevs(node) and any(address in network for network in _networks(netdev)):
            return netdev.name
    return None


def _prefix(destination: str) -> IPv4Network | None:
    try:
        return IPv4Network("0.0.0.0/0" if destination == "default" else destination, strict=False)
    except ValueError:
        return None


def _networks(netdev: Netdev) -> Iterator[IPv4Network]:
    # Without its prefix an address says nothing of its neighbours.
    found = (_prefix(address) for address in netdev.addresses if "/" in address)
    yield from (network for network in found if network is not None)


CHECK = FleetCheck(
    id="PD-GID-005",
    topic="gid.pair",
    title="Nodes cannot reach each other's GIDs",
    severity=Severity.HIGH,
    tools=("show_gids", "ip"),
    sources=("linux drivers/infiniband/core/addr.c, addr_resolve()", "https://github.com/NVIDIA/nccl/issues/2013"),
    judge=judge,
)
