"""Why a host of an inventory cannot be reached as it is written. Pure."""

import ipaddress
import json
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pdctl import inventory_reader
from pdctl.errors import UsageError

if TYPE_CHECKING:
    from pdctl.inventory import Host

SSH_CONNECTIONS = ("ssh", "smart", "paramiko", "ansible.builtin.ssh", "ansible.netcommon.libssh")
_MOST_FAULTS = 50


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong in an inventory. text: one line that names host and value. hint: what to do."""

    hosts: tuple[str, ...]
    text: str
    hint: str


def wrong(source: Path, faults: Sequence[Fault]) -> UsageError:
    """One error for all faults of an inventory, a line each."""
    first = faults[0]
    if len(faults) == 1:
        return UsageError(f"the inventory `{source}` is wrong: {first.text}", hint=first.hint)
    lines = [f"{fault.text}; {fault.hint}" for fault in faults[:_MOST_FAULTS]]
    if len(faults) > _MOST_FAULTS:
        lines.append(f"and {len(faults) - _MOST_FAULTS} more")
    return UsageError(
        f"the inventory `{source}` is wrong in {len(faults)} ways",
        detail="\n".join(lines),
        hint="`pdctl inventory validate INVENTORY` judges it again, and touches nothing",
    )


def reach_faults(hosts: "Sequence[Host]", said: str) -> tuple[Fault, ...]:
    """said: the reader's stderr."""
    missing = _missing(said)
    return (*missing, *_unusable_ports(hosts), *_shared_addresses(hosts, {fault.hosts for fault in missing}))


def _missing(said: str) -> tuple[Fault, ...]:
    lines = re.findall(rf"^{re.escape(inventory_reader.MISSING)}(.+)$", said, flags=re.MULTILINE)
    return tuple(_missing_variable(*json.loads(line)) for line in dict.fromkeys(lines))


def _missing_variable(host: str, variable: str, why: str) -> Fault:
    undefined = re.search(r"'(\w+)' is undefined", why)
    text = f"`{variable}` of host `{host}` cannot be filled in: {why}"
    if undefined:
        text = f"`{variable}` of host `{host}` needs the variable `{undefined[1]}`, which nothing gives"
    return Fault((host,), text, "give it in host_vars, group_vars or with `-e`")


def _unusable_ports(hosts: "Iterable[Host]") -> Iterator[Fault]:
    for host in hosts:
        if not host.port:
            given = host.variables.get("ansible_port", host.variables.get("ansible_ssh_port"))
            yield Fault((host.name,), f"host `{host.name}` has no usable port: `{given}`", "ansible_port is 1 to 65535")


def _shared_addresses(hosts: "Iterable[Host]", without_address: Container[tuple[str, ...]]) -> Iterator[Fault]:
    owner: dict[tuple[str, int], str] = {}
    for host in hosts:
        if host.connection not in SSH_CONNECTIONS or not host.port or (host.name,) in without_address:
            continue
        other = owner.setdefault((_one_spelling(host.address), host.port), host.name)
        if other != host.name:
            yield Fault(
                (other, host.name),
                f"hosts `{other}` and `{host.name}` have one address: {host.address} port {host.port}",
                "give each node its own `ansible_host`, or name the host once",
            )


def _one_spelling(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address.lower().rstrip(".")
