"""From where to where two nodes test: rail to rail, else over the interfaces that share a subnet, else as they are reached."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, ip_address, ip_interface

from pdchecks.fabric import carries_rdma, netdevs
from pdchecks.facts.net import Netdev
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.roce import netdev_mtu_for
from pdchecks.unknown import known

# IPv4's total length is a field of 16 bits; RFC 791.
_LARGEST_PACKET = 65_535
# What every Ethernet carries; IEEE 802.3, clause 3.2.7.
_ETHERNET_MTU = 1500
MOST_RAILS = 16


@dataclass(frozen=True, slots=True)
class End:
    """netdev: empty where the route decides. size: the largest IP packet (bytes) that must get from here to the peer."""

    netdev: str
    address: IPv4Address
    device: str
    size: int


def ends(
    one: NodeFacts, other: NodeFacts, policies: tuple[Policy, Policy], addresses: tuple[str, str]
) -> list[tuple[End, End]]:
    """policies: of both nodes. addresses: by which each is reached, for nodes that share no subnet."""
    mine, theirs = _interfaces(one), _interfaces(other)
    rails = [(a, b) for a, b in _matched([each for each in mine if each.roce], [each for each in theirs if each.roce])]
    shared = rails or _sharing(mine, theirs)
    if shared:
        sizes = [netdev_mtu_for(policy.values.fabric.mtu.roce) for policy in policies]
        return [(_end(a, sizes[0], one), _end(b, sizes[1], other)) for a, b in shared[:MOST_RAILS]]
    reached = (_reached(mine, addresses[0]), _reached(theirs, addresses[1]))
    if reached[0] is None or reached[1] is None or reached[0].address == reached[1].address:
        return []
    return [(reached[0], reached[1])]


@dataclass(frozen=True, slots=True)
class _Interface:
    name: str
    address: IPv4Interface
    mtu: int
    roce: bool


def _interfaces(node: NodeFacts) -> list[_Interface]:
    return [found for netdev in node.all(Netdev) if netdev.up is not False for found in _of(node, netdev)]


def _of(node: NodeFacts, netdev: Netdev) -> Iterator[_Interface]:
    for text in netdev.addresses:
        try:
            address = ip_interface(text)
        except ValueError:
            continue
        # Without its prefix an address says nothing of its neighbours.
        if isinstance(address, IPv4Interface) and "/" in text:
            mtu = known(netdev.mtu) or _ETHERNET_MTU
            yield _Interface(netdev.name, address, mtu, carries_rdma(node, netdev.name) is True)
            return


def _matched(mine: list[_Interface], theirs: list[_Interface]) -> list[tuple[_Interface, _Interface]]:
    """By subnet; in a fabric that is routed from rail to rail, by order."""
    return _sharing(mine, theirs) or list(zip(mine, theirs, strict=False))


def _sharing(mine: list[_Interface], theirs: list[_Interface]) -> list[tuple[_Interface, _Interface]]:
    """Each interface once. Two nodes with one address are one host, or do not see each other there."""
    left = [each for each in theirs if not each.address.ip.is_loopback]
    found: list[tuple[_Interface, _Interface]] = []
    for one in mine:
        near = [
            other for other in left if other.address.ip in one.address.network and other.address.ip != one.address.ip
        ]
        if near:
            best = next((other for other in near if other.name == one.name), near[0])
            left.remove(best)
            found.append((one, best))
    return found


def _end(interface: _Interface, roce_size: int, node: NodeFacts) -> End:
    size = roce_size if interface.roce else min(interface.mtu, _LARGEST_PACKET)
    return End(interface.name, interface.address.ip, netdevs(node).get(interface.name, ""), size)


def _reached(interfaces: list[_Interface], address: str) -> End | None:
    try:
        ip = ip_address(address)
    except ValueError:
        return None
    if not isinstance(ip, IPv4Address):
        return None
    mtu = next((each.mtu for each in interfaces if ip in each.address.network), _ETHERNET_MTU)
    return End("", ip, "", min(mtu, _LARGEST_PACKET))
