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
    gids = {node.name: [gid for table in tables(node) for gid in table.gids] for node, _ in nodes}
    usable = {node.name: [gid for table in tables(node) for gid in table.usable] for node, _ in nodes}
    for place, (node, _) in enumerate(nodes):
        for other, _ in nodes[place + 1 :]:
            if _only_v1(gids[node.name]) and usable[other.name]:
                yield _versions(node, other, gids[node.name], usable[other.name])
            elif _only_v1(gids[other.name]) and usable[node.name]:
                yield _versions(other, node, gids[other.name], usable[node.name])
            elif usable[node.name] and usable[other.name]:
                yield from _ways(node, other, usable[node.name], usable[other.name])


def _only_v1(gids: Sequence[Gid]) -> bool:
    return bool(gids) and all(gid.version == 1 for gid in gids)


def _versions(old: NodeFacts, new: NodeFacts, v1: Sequence[Gid], v2: Sequence[Gid]) -> Verdict:
    return Verdict(
        Status.FAIL,
        "RoCE version",
        f"{old.name} has GIDs of RoCE v1 only, {new.name} uses RoCE v2",
        "RoCE v1 is an Ethernet protocol and v2 is UDP: the two do not understand each other's packets.",
        (v1[0].quote, v2[0].quote),
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


def _ways(node: NodeFacts, other: NodeFacts, here: Sequence[Gid], there: Sequence[Gid]) -> Iterator[Verdict]:
    for source, target, gids in ((node, other, there), (other, node, here)):
        addresses = [gid.ipv4 for gid in gids if gid.ipv4]
        exits = {address: _exit(source, address) for address in addresses}
        if not addresses or None in exits.values():
            continue
        rails = sorted({name for name in exits.values() if name and _is_rail(source, name)})
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
            (*(entry.quote for entry in source.all(RouteEntry)[:3]), gids[0].quote),
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
