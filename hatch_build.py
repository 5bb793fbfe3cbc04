"""Puts the Ansible content beside the package in wheels; an editable install reads the checkout instead."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHIPPED = ("ansible.cfg", "playbooks", "roles", "inventories/sample")


class ShipAnsibleContent(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"].update({path: f"pdctl/_content/{path}" for path in SHIPPED})
