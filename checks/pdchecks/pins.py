"""Which devices, GID and traffic class the libraries of one node should use, each with its reason. Pure.

Indices are a node's own: they follow the order in which its addresses were given (https://github.com/NVIDIA/nccl/pull/2183).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, ip_interface, ip_network

from pdchecks.fabric import ports
from pdchecks.facts.net import Netdev
from pdchecks.facts.rdma import Gid, RdmaMtu
from pdchecks.gids import Table, tables
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.roce import traffic_class
from pdchecks.unknown import known


@dataclass(frozen=True, slots=True)
class Pin:
    """One variable. value: None where it is better left unset; reason: for a person, one line."""

    name: str
    value: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Rail:
    """A port that carries RoCE between nodes, and the GID to use on it."""

    device: str
    port: int
    gid: Gid
    alternatives: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.device}:{self.port}"


@dataclass(frozen=True, slots=True)
class Pins:
    """left_out: port and why it is not used."""

    node: str
    pins: tuple[Pin, ...]
    rails: tuple[Rail, ...]
    left_out: tuple[tuple[str, str], ...]


def pins(node: NodeFacts, policy: Policy, peers: Sequence[NodeFacts] = ()) -> Pins:
    """peers: nodes that this one talks to; a GID in their subnet is preferred. Without a usable port there are no pins."""
    rails: list[Rail] = []
    left_out: list[tuple[str, str]] = []
    down = {(port.device, port.port): port.state for port in ports(node) if port.down}
    near = [address for peer in peers for table in tables(peer) for gid in table.usable if (address := gid.ipv4)]
    for table in tables(node):
        found = _rail(table, policy, near, _networks(node))
        if (table.device, table.port) in down:
            left_out.append((table.name, f"the port is {down[table.device, table.port]}"))
        elif isinstance(found, str):
            left_out.append((table.name, found))
        else:
            rails.append(found)
    made = tuple(_pins(node, policy, rails, [node, *peers])) if rails else ()
    return Pins(node.name, made, tuple(rails), tuple(left_out))


def _rail(table: Table, policy: Policy, near: Sequence[object], networks: Sequence[IPv4Interface]) -> Rail | str:
    """The port's rail, or why it has none."""
    subnets = [ip_network(subnet, strict=False) for subnet in policy.values.fabric.gid.subnets]
    usable = table.usable
    inside = [gid for gid in usable if not subnets or any((gid.ipv4 or gid.address) in subnet for subnet in subnets)]
    if not usable:
        return "no RoCE v2 GID with a routable address in this network namespace"
    if not inside:
        return f"its addresses are in none of the policy's subnets ({', '.join(map(str, subnets))})"
    shared = [
        gid
        for gid in inside
        if any(gid.ipv4 in one.network and peer in one.network for one in networks for peer in near)
    ]
    best = (shared or inside)[0]
    return Rail(table.device, table.port, best, tuple(gid.index for gid in inside))


def _networks(node: NodeFacts) -> list[IPv4Interface]:
    found: list[IPv4Interface] = []
    for netdev in node.all(Netdev):
        for address in netdev.addresses:
            try:
                interface = ip_interface(address)
            except ValueError:
                continue
            # Without its prefix an address says nothing of its neighbours.
            if isinstance(interface, IPv4Interface) and "/" in address:
                found.append(interface)
    return found


def _pins(node: NodeFacts, policy: Policy, rails: Sequence[Rail], all_nodes: Sequence[NodeFacts]) -> list[Pin]:
    names = ",".join(rail.name for rail in rails)
    listed = ", ".join(f"{rail.name} index {rail.gid.index} ({rail.gid.ipv4 or rail.gid.address})" for rail in rails)
    used = f"active RoCE ports with a routable RoCE v2 GID: {listed}"
    byte = str(traffic_class(policy.values.fabric.dscp))
    marked = f"DSCP {policy.values.fabric.dscp} of the policy, with the bit that lets switches mark (ECT)"
    address = str(rails[0].gid.ipv4 or rails[0].gid.address)
    made = [
        Pin("NCCL_IB_HCA", f"={names}", f"{used}; `=` matches names exactly"),
        Pin("UCX_NET_DEVICES", names, used),
        *_index_pins(rails),
        Pin("NCCL_IB_TC", byte, marked),
        Pin("UCX_IB_TRAFFIC_CLASS", byte, marked),
        Pin("VLLM_NIXL_SIDE_CHANNEL_HOST", address, f"address of {rails[0].name}: peers must be able to route to it"),
    ]
    numbers = {rail.port for rail in rails}
    if len(numbers) == 1:
        made.append(Pin("MC_IB_PORT", str(numbers.pop()), "the port of every device that is used"))
    made += _mtu_pin(all_nodes, rails)
    return made


def _index_pins(rails: Sequence[Rail]) -> list[Pin]:
    """One index for all ports of a node, if one is right on all of them."""
    common = [index for index in rails[0].alternatives if all(index in rail.alternatives for rail in rails)]
    index = rails[0].gid.index if all(rail.gid.index == rails[0].gid.index for rail in rails) else None
    if index is None and common:
        index = common[0]
    if index is not None:
        on = f"on all {len(rails)} ports" if len(rails) > 1 else f"on {rails[0].name}"
        why = (
            f"RoCE v2 with a routable address {on}; this node's own, check it again after an address or a link changed"
        )
        return [Pin(f"{library}_GID_INDEX", str(index), why) for library in ("NCCL_IB", "UCX_IB", "MC")]
    listed = ", ".join(f"{rail.name}: {', '.join(map(str, rail.alternatives))}" for rail in rails)
    why = f"no index is right on all ports ({listed})"
    return [
        Pin("NCCL_IB_GID_INDEX", None, f"{why}; NCCL from 2.21 chooses per port where it is unset"),
        Pin("UCX_IB_GID_INDEX", "auto", f"{why}; UCX chooses per port"),
        Pin("MC_GID_INDEX", None, f"{why}; use one port, or make the tables alike (`pdctl explain PD-GID-003`)"),
    ]


def _mtu_pin(nodes: Sequence[NodeFacts], rails: Sequence[Rail]) -> list[Pin]:
    """Mooncake takes the path MTU of its own port: between ends that differ it must be told the smaller."""
    mine = {rail.device for rail in rails}
    active = {
        (node.name, fact.device): value
        for position, node in enumerate(nodes)
        for fact in node.all(RdmaMtu)
        if (value := known(fact.active)) is not None and (position > 0 or fact.device in mine)
    }
    if len(set(active.values())) < 2:
        return []
    listed = ", ".join(f"{name} {device} {value}" for (name, device), value in active.items())
    return [
        Pin("MC_MTU", str(min(active.values())), f"the smallest active path MTU ({listed}); better make them equal")
    ]
