"""Reads an Ansible inventory (INI, YAML, directory or dynamic) with Ansible's own loader, in a child process.

`load_inventory` is the entry; `read_inventory` also returns one with faults, for who lists them all. Precedence,
group_vars, host_vars and vaults are therefore Ansible's, and what the doctor or `up` sees of a host is what a play sees.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdctl.content import sample_inventory
from pdctl.errors import UsageError
from pdctl.inventory_document import DEADLINE_S, read_document, warnings
from pdctl.inventory_faults import Fault, reach_faults, wrong

TRUE_WORDS = ("true", "yes", "on", "1", "y", "t")
"""What Ansible takes for a boolean that is true."""


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

    @property
    def simulated(self) -> bool:
        """Whether it stands in for a node with the GPU that it declares."""
        return str(self.variables.get("simulated", "")).strip().lower() in TRUE_WORDS


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts in Ansible's order. `warnings` are the loader's, one per line.

    faults: why a host of it cannot be reached as it is written; empty in what `load_inventory` returns.
    """

    source: Path
    hosts: tuple[Host, ...]
    warnings: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def folder(self) -> Path:
        """Where policy.yml, waivers.yml, group_vars and host_vars of the site lie."""
        return self.source if self.source.is_dir() else self.source.parent

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


def load_inventory(
    source: Path,
    *,
    limit: str | None = None,
    variables: Mapping[str, Any] | None = None,
    deadline_s: float = DEADLINE_S,
) -> Inventory:
    """The hosts of `source`, of those only the ones that Ansible's pattern `limit` selects.

    variables: of `-e`; each host has them, above its own.

    Raises:
        UsageError: missing, unreadable, without hosts; or a host cannot be reached as it is written (a port that is none, a
            variable that nothing gives, the address of another).
        PdError: the loader (a dynamic inventory) did not end within `deadline_s`.
    """
    inventory = read_inventory(source, limit=limit, variables=variables, deadline_s=deadline_s)
    if inventory.faults:
        raise wrong(source, inventory.faults)
    return inventory


def read_inventory(
    source: Path,
    *,
    limit: str | None = None,
    variables: Mapping[str, Any] | None = None,
    deadline_s: float = DEADLINE_S,
) -> Inventory:
    """As `load_inventory`, but what is wrong with single hosts is in `faults`. A host without a usable port has port 0."""
    if not source.exists():
        raise UsageError(
            f"no inventory at `{source}`", hint=f"give an INI or YAML inventory; {sample_inventory()} is an example"
        )
    document, said = read_document(source, limit=limit, variables=variables, deadline_s=deadline_s)
    hosts = _hosts(document)
    if not hosts:
        raise UsageError(
            f"inventory `{source}` has no hosts" + (f" that match `{limit}`" if limit else ""),
            hint="add hosts, or check the pattern" if limit else "add one host a line below a group such as [prefill]",
        )
    return Inventory(source, hosts, tuple(warnings(said)), reach_faults(hosts, said))


def _hosts(document: Mapping[str, Any]) -> tuple[Host, ...]:
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
        _host(name, all_variables.get(name, {}), tuple(sorted(g for g, hosts in members.items() if name in hosts)))
        for name in names
    )


def _members(document: Mapping[str, Any]) -> dict[str, set[str]]:
    """Group -> hosts below it at any depth. Ansible has refused loops by now."""

    def below(group: str) -> set[str]:
        entry = document.get(group, {})
        return set(entry.get("hosts", ())).union(*(below(child) for child in entry.get("children", ())))

    return {group: below(group) for group in document if group not in ("_meta", "all", "ungrouped")}


def _host(name: str, variables: Mapping[str, Any], groups: tuple[str, ...]) -> Host:
    def first(*keys: str) -> Any:
        return next((variables[key] for key in keys if variables.get(key) not in (None, "")), None)

    key_file = first("ansible_ssh_private_key_file", "ansible_private_key_file")
    user = first("ansible_user", "ansible_ssh_user")
    return Host(
        name=name,
        address=str(first("ansible_host", "ansible_ssh_host") or name),
        port=_port(first("ansible_port", "ansible_ssh_port")),
        user=str(user) if user is not None else None,
        private_key=Path(str(key_file)).expanduser() if key_file is not None else None,
        connection=str(first("ansible_connection") or "ssh"),
        variables=variables,
        groups=groups,
    )


def _port(given: Any) -> int:
    """0 where it is no port."""
    if given is None:
        return 22
    return int(given) if str(given).isdecimal() and len(str(given)) < 6 and int(given) < 65536 else 0
