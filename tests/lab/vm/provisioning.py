"""pdctl on the controller against one machine: how it ended, and the machine's part of the document."""

from collections.abc import Mapping
from typing import Any

from tests.lab.vm.fabric import ask
from tests.lab.vm.machine import VirtualMachine

# An emulated machine takes its time to answer.
POLICY_OF_THE_SITE: Mapping[str, Any] = {"confirm": {"window_s": 600}}


def pdctl(vm: VirtualMachine, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code, and the host of the document with the id of the `run`."""
    code, document = ask(vm, *arguments)
    (host,) = document["hosts"]
    return code, {**host, "run": document["run"]["id"]}


def provision(
    vm: VirtualMachine, *options: str, tags: str = "", policy: Mapping[str, Any] | None = None
) -> tuple[int, dict[str, Any]]:
    """policy: what the site overrides beside `POLICY_OF_THE_SITE`."""
    inventory = vm.lab.inventory(vm, policy={**POLICY_OF_THE_SITE, **(policy or {})})
    chosen = ("--tags", tags) if tags else ()
    return pdctl(vm, "provision", str(inventory), *chosen, *options)


def changes(host: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(change["role"], change["task"]) for change in host["changes"]]


def problem(host: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The one problem of that key."""
    (found,) = [problem for problem in host["problems"] if problem["key"] == key]
    return dict(found)
