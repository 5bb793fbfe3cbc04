"""What a plan stands on, on this side: the inventory, the policy, the roles, the given variables; as digests by name."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pdctl.content import content_root
from pdctl.inventory import Host, Inventory
from pdctl.policy_source import SITE

Fingerprint = Mapping[str, Mapping[str, str]]
"""Kind (inventory, policy, roles, variables) -> name of a thing -> its digest."""

_CONTENT = ("roles", "playbooks", "ansible.cfg")
_POLICY = Path("roles/policy/files/policy.yml")


def fingerprint(inventory: Inventory, variables: Mapping[str, Any], salt: str) -> Fingerprint:
    """variables: of `-e`. salt: keeps the digest of a short secret from being looked up in a list."""
    policy, roles = _content(inventory)
    return {
        "inventory": {host.name: digest([salt, _host(host, variables)]) for host in inventory},
        "policy": policy,
        "roles": roles,
        "variables": {name: digest([salt, value]) for name, value in variables.items()},
    }


def host_digests(
    inventory: Inventory, variables: Mapping[str, Any], selection: Sequence[Any]
) -> Callable[[str, str], str]:
    """(host, salt) -> one digest of all that a run stands on for it. selection: what else decides what the run does."""
    shared = [*_content(inventory), dict(variables), list(selection)]
    hosts = {host.name: host for host in inventory}
    return lambda name, salt: digest([salt, _host(hosts[name], variables), shared])


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names that are in one only, or that differ, sorted."""
    return sorted(name for name in {*then, *now} if then.get(name) != now.get(name))


def digest(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode(errors="surrogateescape")).hexdigest()


def _content(inventory: Inventory) -> tuple[dict[str, str], dict[str, str]]:
    """(policy, roles): name of a file -> its digest."""
    root = content_root()
    policy = {"shipped": _file(root / _POLICY), f"{SITE} beside the inventory": _file(inventory.folder / SITE)}
    files = {str(path.relative_to(root)): _file(path) for name in _CONTENT for path in _below(root / name)}
    return policy, {name: found for name, found in sorted(files.items()) if Path(name) != _POLICY}


def _host(host: Host, given: Mapping[str, Any]) -> list[Any]:
    """Without what `-e` gives every host: that has a digest of its own."""
    own = {name: value for name, value in host.variables.items() if name not in given}
    return [host.address, host.port, host.user, host.connection, host.groups, own]


def _below(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [each for each in sorted(path.rglob("*")) if each.is_file() and "__pycache__" not in each.parts]


def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "absent"
