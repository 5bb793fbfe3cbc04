"""Reads an Ansible inventory (INI, YAML, directory or dynamic) with Ansible's own loader, in a child process.

`load_inventory` is the only entry. Precedence, group_vars, host_vars and vaults are therefore Ansible's, and what the
doctor or `up` sees of a host is what a play sees.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdctl import inventory_reader
from pdctl.ansible_env import ansible_environment
from pdctl.content import sample_inventory
from pdctl.errors import PdError, UsageError
from pdctl.exit_codes import ExitCode

_DEADLINE_S = 120.0
_SSH_CONNECTIONS = ("ssh", "smart", "paramiko", "ansible.builtin.ssh", "ansible.netcommon.libssh")


@dataclass(frozen=True, slots=True)
class Host:
    """One host. `address` is its name when the inventory gives no `ansible_host`; it need not resolve.

    groups: names of all groups that hold it, directly or through a child, sorted, without `all` and `ungrouped`.
    """

    name: str
    address: str
    port: int
    user: str | None
    private_key: Path | None
    connection: str
    variables: Mapping[str, Any]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts in Ansible's order. `warnings` are the loader's, one per line."""

    source: Path
    hosts: tuple[Host, ...]
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts)

    def __len__(self) -> int:
        return len(self.hosts)

    def get(self, name: str) -> Host:
        """Raises UsageError, with the names that exist, when there is no host `name`."""
        for host in self.hosts:
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self.hosts[:20])
        raise UsageError(f"no host `{name}` in {self.source}", hint=f"it has: {known}")

    def in_group(self, group: str) -> tuple[Host, ...]:
        return tuple(host for host in self.hosts if group in host.groups)


def load_inventory(source: Path, *, limit: str | None = None, deadline_s: float = _DEADLINE_S) -> Inventory:
    """The hosts of `source`, of those only the ones that Ansible's pattern `limit` selects.

    Raises:
        UsageError: missing, unreadable, without hosts, or two hosts with one address and port.
        PdError: the loader (a dynamic inventory) did not end within `deadline_s`.
    """
    if not source.exists():
        raise UsageError(
            f"no inventory at `{source}`", hint=f"give an INI or YAML inventory; {sample_inventory()} is an example"
        )
    document, warnings = read_document(source, limit=limit, deadline_s=deadline_s)
    hosts = _hosts(document, source)
    if not hosts:
        raise UsageError(
            f"inventory `{source}` has no hosts" + (f" that match `{limit}`" if limit else ""),
            hint="add hosts, or check the pattern" if limit else "add one host a line below a group such as [prefill]",
        )
    _refuse_shared_addresses(hosts, source)
    return Inventory(source, hosts, warnings)


def read_document(
    source: Path, *, limit: str | None = None, export: bool = False, deadline_s: float = _DEADLINE_S
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What `ansible-inventory --list` prints, and its warnings. export: variables stay with the group that gives them."""
    # Safe path: what lies beside the script is no module of the child.
    command = [sys.executable, "-P", inventory_reader.__file__, "-i", str(source.absolute()), "--list"]
    if export:
        command.append("--export")
    if limit:
        command += ["--limit", limit]
    environment = ansible_environment() | {
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",
        "ANSIBLE_DUPLICATE_YAML_DICT_KEY": "error",
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
    }
    try:
        # From `/`: a file of the working directory must not shadow a module of the child.
        child = subprocess.run(
            command, env=environment, cwd="/", capture_output=True, timeout=deadline_s, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise PdError(
            f"the inventory `{source}` was not read within {deadline_s:g} s",
            detail="a dynamic inventory that waits for its source?",
            code=ExitCode.INCOMPLETE,
        ) from error
    said = child.stderr.decode("utf-8", errors="replace")
    if child.returncode != 0:
        raise _unreadable(source, limit, said)
    document: dict[str, Any] = json.loads(child.stdout)
    return document, tuple(_warnings(said))


def _warnings(said: str) -> Iterator[str]:
    """Our own notes, then Ansible's warnings, which it breaks into lines."""
    for line in dict.fromkeys(said.splitlines()):
        if line.startswith(inventory_reader.NOTE):
            yield line.removeprefix(inventory_reader.NOTE)
    for text in re.findall(r"^\[WARNING\]: (.*(?:\n(?!\[|\s*$).*)*)", said, flags=re.MULTILINE):
        words = " ".join(line for line in text.splitlines() if not line.startswith(inventory_reader.NOTE)).split()
        yield " ".join(words)


def _unreadable(source: Path, limit: str | None, said: str) -> UsageError:
    if limit and ("limit" in said or "pattern" in said) and "parse inventory" not in said:
        return UsageError(f"`--limit {limit}` selects nothing in `{source}`", detail=_first_sentence(said))
    kind = "yaml" if source.suffix in (".yml", ".yaml", ".json") else "ini"
    reported = re.search(rf"Failed to parse inventory with '{kind}' plugin: (?P<why>.*(?:\n.+)*)", said)
    why = reported["why"].splitlines()[0] if reported else _first_sentence(said)
    origin = re.search(rf"Origin: {re.escape(str(source.absolute()))}:(?P<line>\d+)", said)
    if origin is None and kind == "ini" and source.is_file():
        origin = re.search(rf"^{inventory_reader.LINE}(?P<line>\d+)$", said, flags=re.MULTILINE)
    line = int(origin["line"]) if origin else None
    return UsageError(
        f"cannot read the inventory `{source}`" + (f", line {line}" if line else ""),
        detail=why.removeprefix("Failed to parse inventory: "),
        hint="`ansible-inventory -i INVENTORY --list` reads it the same way",
    )


def _first_sentence(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("pdctl-inventory-")]
    errors = [line for line in lines if line.startswith(("ERROR", "[ERROR]"))]
    return (errors or lines or ["ansible-inventory said nothing"])[0]


def _hosts(document: Mapping[str, Any], source: Path) -> tuple[Host, ...]:
    all_variables: Mapping[str, Mapping[str, Any]] = document.get("_meta", {}).get("hostvars", {})
    members = _members(document)
    names: dict[str, None] = {}

    def walk(group: str) -> None:
        entry = document.get(group, {})
        names.update(dict.fromkeys(entry.get("hosts", ())))
        for child in entry.get("children", ()):
            walk(child)

    walk("all")
    return tuple(
        _host(
            name, all_variables.get(name, {}), tuple(sorted(g for g, hosts in members.items() if name in hosts)), source
        )
        for name in names
    )


def _members(document: Mapping[str, Any]) -> dict[str, set[str]]:
    """Group -> hosts below it at any depth. Ansible has refused loops by now."""

    def below(group: str) -> set[str]:
        entry = document.get(group, {})
        return set(entry.get("hosts", ())).union(*(below(child) for child in entry.get("children", ())))

    return {group: below(group) for group in document if group not in ("_meta", "all", "ungrouped")}


def _host(name: str, variables: Mapping[str, Any], groups: tuple[str, ...], source: Path) -> Host:
    def first(*keys: str) -> Any:
        return next((variables[key] for key in keys if variables.get(key) not in (None, "")), None)

    key_file = first("ansible_ssh_private_key_file", "ansible_private_key_file")
    user = first("ansible_user", "ansible_ssh_user")
    return Host(
        name=name,
        address=str(first("ansible_host", "ansible_ssh_host") or name),
        port=_port(first("ansible_port", "ansible_ssh_port"), name, source),
        user=str(user) if user is not None else None,
        private_key=Path(str(key_file)).expanduser() if key_file is not None else None,
        connection=str(first("ansible_connection") or "ssh"),
        variables=variables,
        groups=groups,
    )


def _port(given: Any, name: str, source: Path) -> int:
    if given is None:
        return 22
    if str(given).isdigit() and 0 < int(given) < 65536:
        return int(given)
    raise UsageError(f"host `{name}` in `{source}` has no usable port: `{given}`", hint="ansible_port is 1 to 65535")


def _refuse_shared_addresses(hosts: tuple[Host, ...], source: Path) -> None:
    owner: dict[tuple[str, int], str] = {}
    for host in hosts:
        if host.connection not in _SSH_CONNECTIONS:
            continue
        other = owner.setdefault((host.address, host.port), host.name)
        if other != host.name:
            raise UsageError(
                f"hosts `{other}` and `{host.name}` in `{source}` have one address: {host.address} port {host.port}",
                hint="give each node its own `ansible_host`, or name the host once",
            )
