"""Runs a module of a role in this process, with what the node keeps in a folder of the test."""

import importlib
import importlib.util
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import ansible.module_utils
import pytest
from ansible.module_utils.testing import patch_module_args

from pdctl.content import content_root


def loaded(role: str, name: str) -> ModuleType:
    path = content_root() / "roles" / role / "library" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@contextmanager
def kept_below(folder: Path) -> Iterator[ModuleType]:
    """`pdctl_state`, with its folders below this one instead of the node's own."""
    utilities = content_root() / "roles" / "backup" / "module_utils"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ansible.module_utils, "__path__", [*ansible.module_utils.__path__, str(utilities)])
        state = importlib.import_module("ansible.module_utils.pdctl_state")
        patch.setattr(state, "KEPT", folder / "var" / "runs")
        patch.setattr(state, "CONVERGED", folder / "var" / "converged.json")
        patch.setattr(state, "PROC", folder / "proc")
        (folder / "var").mkdir()
        yield state


def run(
    module: ModuleType, capsys: pytest.CaptureFixture[str], *, check: bool = False, **arguments: Any
) -> dict[str, Any]:
    """What the module answers."""
    with patch_module_args({**arguments, "_ansible_check_mode": check}), pytest.raises(SystemExit):
        module.main()
    return dict(json.loads(capsys.readouterr().out))
