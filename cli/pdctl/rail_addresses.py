"""Addresses that the policy gives to interfaces of an inventory's hosts: where two of them are one. Pure."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pdctl.inventory_faults import Fault

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Given:
    """Of one host. reached_at: the address by which it is reached. by_interface: as `fabric.addresses` of the policy has it."""

    host: str
    reached_at: str
    by_interface: Mapping[str, Iterable[str] | None]


def address_faults(hosts: Iterable[Given]) -> Iterator[Fault]:
    """One for each address that two interfaces would have, or one host and the way to another."""
    known = list(hosts)
    reached: dict[Address, str] = {}
    for given in known:
        if (address := _parsed(given.reached_at)) is not None:
            reached.setdefault(address, given.host)
    owners: dict[Address, list[tuple[str, str]]] = {}
    for given in known:
        for interface, addresses in given.by_interface.items():
            for text in addresses or ():
                owners.setdefault(ipaddress.ip_interface(text).ip, []).append((given.host, interface))
    for address, places in owners.items():
        if len(places) > 1:
            yield _twice(address, places)
        elif reached.get(address, places[0][0]) != places[0][0]:
            yield _in_the_way(address, *places[0], reached[address])


def _twice(address: Address, places: Sequence[tuple[str, str]]) -> Fault:
    named = " and ".join(f"`{interface}` of host `{host}`" for host, interface in places[:_MOST_NAMED])
    more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
    hint = "`fabric.addresses` is given by host, in its `pdctl_policy`, and no address twice"
    return Fault(
        tuple(dict.fromkeys(host for host, _interface in places)), f"{address} is given to {named}{more}", hint
    )


def _in_the_way(address: Address, host: str, interface: str, other: str) -> Fault:
    text = f"{address} is given to `{interface}` of host `{host}`, and host `{other}` is reached at it"
    return Fault((host, other), text, "give each node its own addresses in `fabric.addresses`")


def _parsed(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
