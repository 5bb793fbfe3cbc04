"""The two nodes of `doctor --pair P D`: hosts of an inventory, or without one SSH destinations."""

import difflib
import os
import re
from dataclasses import replace
from pathlib import Path

from pdctl.errors import UsageError
from pdctl.inventory import Host, Inventory, read_inventory
from pdctl.inventory_faults import wrong

# As Ansible has it (`-i /dev/null`): no hosts of its own, and no policy or waivers beside it.
_NOWHERE = Path(os.devnull)
# The name may be filled into a ProxyCommand, which a shell reads.
_DESTINATION = re.compile(
    r"(?:ssh://)?(?:(?P<user>[\w.][\w.-]{0,63})@)?"
    r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45}(?:%[\w.-]{1,32})?)\]|(?P<name>\w[\w.-]{0,252})|(?P<bare>[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{1,41}))"
    r"(?::(?P<port>\d{1,5}))?/?"
)


def pair_hosts(inventory: Path | None, pair: tuple[str, str]) -> Inventory:
    """Those two alone, in that order. What is wrong with other hosts of the inventory is no matter.

    Raises:
        UsageError: one name twice, a host that the inventory does not have, no SSH destination, or one that cannot be reached
            as it is written.
    """
    if inventory is None:
        first, second = (_destination(text) for text in pair)
        if pair[0] == pair[1] or (first.address, first.port) == (second.address, second.port):
            raise _twice(pair)
        return Inventory(_NOWHERE, (first, second))
    if pair[0] == pair[1]:
        raise _twice(pair)
    read = read_inventory(inventory)
    hosts = tuple(_host_of(read, name) for name in pair)
    faults = tuple(fault for fault in read.faults if not fault.hosts or set(fault.hosts) & set(pair))
    if faults:
        raise wrong(inventory, faults)
    return replace(read, hosts=hosts, faults=())


def _twice(pair: tuple[str, str]) -> UsageError:
    return UsageError(
        f"`--pair {pair[0]} {pair[1]}` names one node twice", hint="give the prefill node, then the decode node"
    )


def _host_of(inventory: Inventory, name: str) -> Host:
    names = [host.name for host in inventory]
    if name in names:
        return inventory.get(name)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    known = ", ".join(f"`{each}`" for each in near or names[:20])
    raise UsageError(
        f"no host `{name}` in {inventory.source}",
        hint=f"did you mean {known}?"
        if near
        else f"it has: {known}; without an inventory --pair takes SSH destinations",
    )


def _destination(text: str) -> Host:
    match = _DESTINATION.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else 22
    if match is None or not 0 < port < 65536:
        raise UsageError(
            f"`{text}` is no SSH destination", hint="`HOST`, `USER@HOST` or `USER@HOST:PORT`; or give an INVENTORY"
        )
    address = match["six"] or match["name"] or match["bare"]
    # Two nodes behind one address differ in their port alone.
    name = f"{address}:{port}" if match["port"] else address
    return Host(name, address, port, match["user"], None, "ssh", {}, ())
