"""What is wrong with an inventory as it is written: no node is looked at. `judge` is pure but for the look at key files."""

import difflib
import ipaddress
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pdchecks.pair.gpus import close_kinds, find_gpu
from pdchecks.unknown import Unknown
from pdctl.errors import UsageError
from pdctl.inventory import TRUE_WORDS, Host, Inventory
from pdctl.inventory_faults import SSH_CONNECTIONS, Fault
from pdctl.policy_keys import unknown_keys, unread
from pdctl.policy_source import SITE, VARIABLE, policy_for, shipped_values, site_layer
from pdctl.rail_addresses import Given, address_faults

_BOOLEANS = (*TRUE_WORDS, "false", "no", "off", "0", "n", "f")
_POOLS = ("prefill", "decode")
_OWN_VARIABLES = ("gpu_kind", "simulated", VARIABLE)
_ANSIBLE_VARIABLES = (
    *("host", "port", "user", "password", "connection", "timeout", "python_interpreter", "private_key_file"),
    *("become", "become_user", "become_method", "become_password", "become_pass", "become_exe", "become_flags"),
    *("ssh_private_key_file", "ssh_common_args", "ssh_extra_args", "ssh_args", "ssh_executable", "ssh_pipelining"),
    *(
        "ssh_host",
        "ssh_port",
        "ssh_user",
        "ssh_pass",
        "ssh_password",
        "ssh_retries",
        "ssh_timeout",
        "ssh_transfer_method",
    ),
)
_KNOWN_VARIABLES = (*_OWN_VARIABLES, *(f"ansible_{name}" for name in _ANSIBLE_VARIABLES))
# A file's name has 255 at most, and Ansible puts more before it.
_LONGEST_NAME = 240
_PLAIN_NAME = "give the host a shorter name, with its address in `ansible_host`"
_MOST_NAMED = 3
_OF = "\0"
"""Stands for the hosts in a text, until they are known."""


class Judgement(NamedTuple):
    """faults: nothing is done with the inventory before they are mended. warnings: one line each."""

    faults: tuple[Fault, ...]
    warnings: tuple[str, ...]


def judge(inventory: Inventory) -> Judgement:
    faults = [*inventory.faults, *_of_hosts(inventory), *_key_files(inventory)]
    faults += _policies(inventory)
    return Judgement(tuple(faults), (*inventory.warnings, *_warnings(inventory)))


def without_gpu_kind(inventory: Inventory) -> Iterator[str]:
    """A warning for the nodes of the pools that `up` could not choose by their GPU."""
    hosts = [host.name for host in inventory if "gpu_kind" not in host.variables and set(host.groups) & set(_POOLS)]
    if hosts:
        yield f"{_named(hosts)}: no gpu_kind; `pdctl inventory discover` asks the node and writes it"


def _of_hosts(inventory: Inventory) -> Iterator[Fault]:
    """What a group gives to all of its hosts is one fault, not one a host."""
    found: dict[tuple[str, str], list[str]] = {}
    for host in inventory:
        for text, hint in _of_host(host):
            found.setdefault((text, hint), []).append(host.name)
    for (text, hint), hosts in found.items():
        yield Fault(tuple(hosts), text.replace(_OF, _named(hosts), 1), hint)


def _of_host(host: Host) -> Iterator[tuple[str, str]]:
    """(text, with `_OF` for whose it is; what to do)."""
    if len(host.name.encode(errors="surrogateescape")) > _LONGEST_NAME:
        yield (
            f"{_OF}: its name is longer than {_LONGEST_NAME} bytes, and Ansible keeps a file of that name",
            _PLAIN_NAME,
        )
    kind = host.variables.get("gpu_kind")
    if kind is not None and (not isinstance(kind, str) or isinstance(find_gpu(kind), Unknown)):
        near = close_kinds(str(kind))
        hint = f"near it: {', '.join(near)}; " if near else ""
        yield f"{_OF}: unknown GPU kind `{kind}`", f"{hint}`pdctl help gpu-kinds` names them all"
    simulated = host.variables.get("simulated")
    if simulated is not None and str(simulated).strip().lower() not in _BOOLEANS:
        yield f"{_OF}: `simulated` is `{simulated}`", "it is true or false"
    if host.connection not in (*SSH_CONNECTIONS, "local"):
        yield f"{_OF}: pdctl does not speak the connection `{host.connection}`", "ansible_connection is ssh or local"
    elif host.connection != "local" and "{{" not in host.address and (why := _no_address(host.address)):
        yield f"{_OF}: no usable address: `{host.address}` {why[0]}", why[1]


def _no_address(address: str) -> tuple[str, str] | None:
    """(why, what to do), or None for what may be one. Whether a name resolves is not asked here."""
    hint = "ansible_host is an IP address or a name that resolves here"
    if address.startswith("-"):
        return "begins with a dash, which ssh takes for an option", hint
    if re.fullmatch(r"\[.*\]", address):
        return "stands in brackets", "an IPv6 address stands without them; the port goes into ansible_port"
    if re.search(r"\s", address) or "/" in address:
        return "is neither an IP address nor a name", hint
    if "@" in address:
        return "holds a user", "the user goes into ansible_user"
    if re.fullmatch(r"[^:]+:\d+|\[.*\]:\d+", address):
        return "holds a port", "the port goes into ansible_port"
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        # What looks like an address and is none would be looked up as a name, and not be found.
        return ("is no IPv4 address", hint) if re.fullmatch(r"[\d.]+", address) else None
    if parsed.is_unspecified or parsed.is_multicast or str(parsed) == "255.255.255.255":
        return "is no address of one node", hint
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.is_link_local and not parsed.scope_id:
        return (
            "is a link-local address without its interface",
            f"write it as `{parsed}%eth0`, with the one of this machine",
        )
    return None


def _key_files(inventory: Inventory) -> Iterator[Fault]:
    users: dict[Path, list[str]] = {}
    for host in inventory:
        if host.private_key is not None and host.connection in SSH_CONNECTIONS and "{{" not in str(host.private_key):
            users.setdefault(host.private_key, []).append(host.name)
    for path, hosts in users.items():
        if why := _unusable_key(path):
            yield Fault(tuple(hosts), f"the SSH key `{path}` of {_named(hosts)} {why[0]}", why[1])


def _unusable_key(path: Path) -> tuple[str, str] | None:
    hint = "ansible_ssh_private_key_file names the private key on this machine"
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            return "is no file", hint
        with path.open("rb") as stream:
            begin = stream.read(64)
    except OSError as error:
        return f"cannot be read: {error.strerror}", hint
    if begin.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        return "is a public key", f"the private one is `{path.with_suffix('')}`" if path.suffix == ".pub" else hint
    if mode & 0o077:
        return f"may be read by others (mode {mode & 0o777:04o}), so that ssh refuses it", f"chmod 600 {path}"
    return None


def _policies(inventory: Inventory) -> Iterator[Fault]:
    hint = "`pdctl policy show` prints the keys and their values"
    try:
        site = site_layer(inventory)
        policy_for(inventory)
    except UsageError as error:
        yield Fault((), f"{error.message}: {_line(error.detail)}", hint)
        return
    for path, near in unknown_keys(site, shipped_values()):
        if len(path) == 1:
            yield Fault((), f"{inventory.folder / SITE}: the policy has no key `{path[0]}`", near or hint)
    same: dict[str, list[str]] = {}
    of = policy_for(inventory)
    for host in inventory:
        given = host.variables.get(VARIABLE)
        for text in _of_policy(host.name, given, of):
            same.setdefault(text, []).append(host.name)
    for text, hosts in same.items():
        yield Fault(tuple(hosts), f"`{VARIABLE}` of {_named(hosts)}: {text}", hint)
    wrong = {host for hosts in same.values() for host in hosts}
    right = [host for host in inventory if host.name not in wrong]
    yield from address_faults(Given(host.name, host.address, of(host.name).values.fabric.addresses) for host in right)


def _of_policy(host: str, given: Any, of: Callable[[str], object]) -> list[str]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        return ["must be a mapping of policy keys"]
    if unknown := [path[0] for path, _near in unknown_keys(given, shipped_values()) if len(path) == 1]:
        return [f"the policy has no key `{key}`" for key in unknown]
    try:
        of(host)
    except UsageError as error:
        # Which layer it was stands before the first colon, and names the host.
        return [_line(error.detail or error.message).split(": ", 1)[-1]]
    return []


def _warnings(inventory: Inventory) -> Iterator[str]:
    odd: dict[str, list[str]] = {}
    for host in inventory:
        for name in host.variables:
            if near := _meant(name):
                odd.setdefault(f"`{name}` is no variable that pdctl or Ansible knows; `{near}` is", []).append(
                    host.name
                )
        if all(pool in host.groups for pool in _POOLS):
            odd.setdefault("in both pools, prefill and decode", []).append(host.name)
        for line in unread(_known_sections(host.variables.get(VARIABLE)), shipped_values()):
            odd.setdefault(f"in `{VARIABLE}` {line}", []).append(host.name)
    for line in unread(_known_sections(site_layer(inventory, lenient=True)), shipped_values()):
        yield f"{inventory.folder / SITE}: {line}"
    for text, hosts in odd.items():
        yield f"{_named(hosts)}: {text}"


def _known_sections(given: Any) -> dict[str, Any]:
    """Without the sections that the policy does not have, which are faults."""
    values = given if isinstance(given, Mapping) else {}
    return {name: value for name, value in values.items() if name in shipped_values()}


def _meant(name: str) -> str | None:
    """The known variable that a misspelt name must have meant."""
    if name in _KNOWN_VARIABLES or not name.startswith(("ansible_", "gpu", "sim", "pdctl")):
        return None
    near = difflib.get_close_matches(name, _KNOWN_VARIABLES, n=1, cutoff=0.85)
    return near[0] if near else None


def _named(hosts: Iterable[str]) -> str:
    names = list(hosts)
    shown = ", ".join(f"`{name}`" for name in names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{'host' if len(names) == 1 else 'hosts'} {shown}{more}"


def _line(text: str | None) -> str:
    return (text or "").splitlines()[0] if text else ""
