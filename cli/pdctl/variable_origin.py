"""Which group or host of an inventory gives a variable, by Ansible's own reading of it."""

import json
from collections.abc import Mapping
from typing import Any

from pdctl.inventory import Inventory
from pdctl.inventory_document import exported_document


def origins(inventory: Inventory, variable: str) -> Mapping[str, str]:
    """By host: `host NAME` or `group NAME`; hosts without the variable are left out.

    Ansible replaces a variable as a whole, so that one group, the nearest, gives all of it.
    """
    exported = exported_document(inventory.source)
    own: Mapping[str, Mapping[str, Any]] = exported.get("_meta", {}).get("hostvars", {})
    of_group = {
        name: entry["vars"][variable]
        for name, entry in exported.items()
        if name != "_meta" and variable in entry.get("vars", {})
    }
    depth = _depths(exported)
    found: dict[str, str] = {}
    for host in inventory:
        value = host.variables.get(variable)
        if value is None:
            continue
        same = [name for name in ("all", *host.groups) if name in of_group and _equal(of_group[name], value)]
        if variable in own.get(host.name, {}):
            found[host.name] = f"host {host.name}"
        elif same:
            found[host.name] = f"group {max(same, key=lambda name: (depth.get(name, 0), name))}"
        else:
            found[host.name] = f"{variable} of {host.name}"
    return found


def _equal(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _depths(document: Mapping[str, Any]) -> dict[str, int]:
    """How far below `all` a group stands, along its longest way: the deeper one wins. Ansible has refused loops by now."""
    depth = {"all": 0}
    pending = ["all"]
    while pending:
        group = pending.pop()
        for child in document.get(group, {}).get("children", ()):
            if depth.get(child, 0) < depth[group] + 1:
                depth[child] = depth[group] + 1
                pending.append(child)
    return depth
