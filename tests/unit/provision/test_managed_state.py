"""What a role writes on a node it declares, so that the role `backup` keeps it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pdctl.content import content_root

ROLES = content_root() / "roles"
WRITERS = {"template", "copy", "lineinfile", "blockinfile", "file", "replace", "assemble", "unarchive", "get_url"}


def _tasks(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for task in tasks:
        yield task
        for part in ("block", "rescue", "always"):
            yield from _tasks(task.get(part, []))


def _written() -> Iterator[tuple[str, str]]:
    for path in sorted(ROLES.glob("*/tasks/*.yml")):
        for task in _tasks(yaml.safe_load(path.read_text(encoding="utf-8"))):
            for action, arguments in task.items():
                if action.rpartition(".")[2] in WRITERS:
                    yield path.parts[-3], str(arguments.get("dest") or arguments.get("path"))


def _variables(role: str) -> dict[str, Any]:
    path = ROLES / role / "vars" / "main.yml"
    return dict(yaml.safe_load(path.read_text(encoding="utf-8"))) if path.exists() else {}


@pytest.mark.parametrize(("role", "target"), sorted(set(_written())))
def test_a_file_that_a_role_writes_is_declared(role: str, target: str) -> None:
    declared = _variables(role).get(f"{role}_managed", {}).get("files", [])
    assert target in [entry["path"] for entry in declared]


def test_every_declaration_is_kept() -> None:
    declared = {f"{{{{ {path.parts[-3]}_managed }}}}" for path in ROLES.glob("*/vars/main.yml") if _declares(path)}
    defaults = yaml.safe_load((ROLES / "backup" / "defaults" / "main.yml").read_text(encoding="utf-8"))
    assert set(defaults["backup_managed"]) == declared
    assert len(declared) > 1


def _declares(path: Path) -> bool:
    return f"{path.parts[-3]}_managed" in _variables(path.parts[-3])
