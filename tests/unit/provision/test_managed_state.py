"""What a role writes on a node it declares, so that the role `backup` keeps it."""

import ast
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


PLAYBOOK = yaml.safe_load((content_root() / "playbooks" / "provision.yml").read_text(encoding="utf-8"))[0]


def test_a_role_whose_changes_an_engine_would_feel_only_checks_where_one_is_active() -> None:
    entries = {entry["role"]: entry for entry in PLAYBOOK["roles"]}
    for path in ROLES.glob("*/vars/main.yml"):
        role = path.parts[-3]
        managed = _variables(role).get(f"{role}_managed")
        if managed and managed["impact"] != "none":
            asked = f"{{{{ ansible_check_mode or {role}_managed.impact in guard_held | default([]) }}}}"
            assert entries[role].get("check_mode") == asked


def test_the_impacts_that_an_engine_would_feel_are_all_but_none() -> None:
    from pdchecks.finding import Impact

    assert _variables("guard")["guard_impacts"] == [impact for impact in Impact if impact is not Impact.NONE]


def test_the_role_and_the_doctor_know_an_engine_by_the_same_names() -> None:
    from pdchecks import units

    defaults = yaml.safe_load((ROLES / "guard" / "defaults" / "main.yml").read_text(encoding="utf-8"))
    assert defaults["guard_engine_units"] == units._ENGINE.pattern


# They write a file beside the target and rename it, or make one folder.
_WHOLE = {"template", "copy", "lineinfile", "blockinfile", "replace", "file"}


def test_every_file_of_a_role_is_written_whole_or_not_at_all() -> None:
    for path in sorted(ROLES.glob("*/tasks/*.yml")):
        for task in _tasks(yaml.safe_load(path.read_text(encoding="utf-8"))):
            for action, arguments in task.items():
                name = action.rpartition(".")[2]
                if name in WRITERS:
                    assert name in _WHOLE and not arguments.get("unsafe_writes"), f"{path}: {task['name']}"
                assert name != "shell", f"{path}: {task['name']}: a shell may write in place"


def _opens_to_write(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    modes = [each.value for each in (*call.args, *(k.value for k in call.keywords)) if isinstance(each, ast.Constant)]
    writes = name == "open" and any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes)
    return writes or name in ("write_text", "write_bytes")


def test_no_module_of_a_role_writes_a_file_in_place() -> None:
    for path in sorted([*ROLES.glob("*/library/*.py"), *ROLES.glob("*/module_utils/*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        wrong = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _opens_to_write(node)]
        assert wrong == [], f"{path}: {wrong}: use pdctl_state.write_durably"
