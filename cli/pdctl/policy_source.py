"""Where the policy of a node comes from: the shipped file, the site's, the host's variable. Later wins."""

import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pdchecks.policy import Layer, Policy, PolicyError, read_layer, resolve
from pdctl.content import content_root
from pdctl.errors import UsageError
from pdctl.inventory import Inventory
from pdctl.policy_keys import unread
from pdctl.printable import printable

SHIPPED = Path("roles/policy/files/policy.yml")
SITE = "policy.yml"
VARIABLE = "pdctl_policy"
# No check reads them, and where a bundle is redacted they would be addresses that no interface can have.
_OF_ONE_NODE = ("fabric", "addresses")


def policy_for(
    inventory: Inventory | None = None,
    site: Path | None = None,
    recorded: Mapping[str, Mapping[str, Any]] | None = None,
    origins: Mapping[str, str] | None = None,
) -> Callable[[str], Policy]:
    """The resolver by node name. site: a policy file given by hand, instead of the one beside the inventory.

    recorded: by node, what a bundle keeps of the policy of its site; counts where neither of the others is given.
    origins: by node, who gives its variable, where somebody wants to know.

    Raises UsageError, as does what it returns, where a layer is unreadable or of the wrong type.
    """
    layers = [_layer(content_root() / SHIPPED)]
    beside = None
    if inventory is not None:
        beside = inventory.folder / SITE
    if site is not None:
        layers.append(_layer(site))
    elif beside is not None and os.path.lexists(beside):
        layers.append(_layer(beside))
    common = _resolve(layers)
    variables = {host.name: host.variables.get(VARIABLE) for host in inventory} if inventory else {}
    kept: Mapping[str, Mapping[str, Any]] = (recorded or {}) if site is None and inventory is None else {}

    def of(node: str) -> Policy:
        if values := kept.get(node):
            return _resolve([*layers, Layer(f"the bundle's policy of {node}", values)])
        given = variables.get(node)
        if not given:
            return common
        if not isinstance(given, dict):
            raise UsageError(f"`{VARIABLE}` of host `{node}` must be a mapping of policy keys")
        return _resolve([*layers, Layer((origins or {}).get(node, f"{VARIABLE} of {node}"), given)])

    return of


@cache
def shipped_values() -> Mapping[str, Any]:
    return _layer(content_root() / SHIPPED).values


def site_layer(inventory: Inventory, *, lenient: bool = False) -> Mapping[str, Any]:
    """What `policy.yml` beside the inventory sets; nothing where there is none.

    Raises UsageError where it is unreadable, unless lenient.
    """
    path = inventory.folder / SITE
    # A folder, a pipe, a link to nothing: whoever put it there wanted it to count.
    if not os.path.lexists(path):
        return {}
    try:
        return _layer(path).values
    except UsageError:
        if lenient:
            return {}
        raise


def tell_unread_keys(inventory: Inventory | None, site: Path | None) -> None:
    """On stderr, the keys of the site's policy and of hosts' variables that nothing reads. site: as of `policy_for`."""
    lines: dict[str, None] = {}
    if site is not None:
        lines.update(dict.fromkeys(f"{site}: {line}" for line in unread(_layer(site).values, shipped_values())))
    elif inventory is not None:
        origin = inventory.folder / SITE
        lines.update(dict.fromkeys(f"{origin}: {line}" for line in unread(site_layer(inventory), shipped_values())))
    for host in inventory or ():
        lines.update(
            dict.fromkeys(f"`{VARIABLE}`: {line}" for line in unread(host.variables.get(VARIABLE), shipped_values()))
        )
    for line in lines:
        print(printable(f"warning: {line}"), file=sys.stderr)


def site_values(policy: Policy) -> dict[str, Any]:
    """Of a policy that `policy_for` resolved, the values that are not the shipped ones, as one layer for a bundle."""
    shipped = str(content_root() / SHIPPED)
    whole = policy.values.model_dump(mode="json")
    values: dict[str, Any] = {}
    for path, origin in policy.origins.items():
        if origin != shipped and path[:2] != _OF_ONE_NODE and (found := _at(whole, path)) is not None:
            section = values
            for name in path[:-1]:
                section = section.setdefault(name, {})
            section[path[-1]] = found[0]
    return values


def _at(tree: Any, path: tuple[str, ...]) -> tuple[Any] | None:
    """The value in a tuple: null is a value too."""
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return None
        tree = tree[name]
    return (tree,)


def _layer(path: Path) -> Layer:
    try:
        return read_layer(path)
    except PolicyError as error:
        raise UsageError("cannot read a policy", detail=str(error)) from error


def _resolve(layers: list[Layer]) -> Policy:
    try:
        return resolve(layers)
    except PolicyError as error:
        raise UsageError("the policy is wrong", detail=str(error)) from error
