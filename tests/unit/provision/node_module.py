"""Modules that run on nodes, loaded from their roles; and what a node's programs print, in place of the programs."""

import importlib
import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import ansible.module_utils
import pytest
from ansible.module_utils.testing import patch_module_args

from pdctl.content import content_root

Answer = tuple[int, str, str]


def node_module(role: str, name: str) -> ModuleType:
    path = content_root() / "roles" / role / "library" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@contextmanager
def kept_below(folder: Path) -> Iterator[ModuleType]:
    """`pdctl_state`, with its folders below this one instead of the node's own."""
    utilities = [str(content_root() / "roles" / role / "module_utils") for role in ("backup", "confirm")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ansible.module_utils, "__path__", [*ansible.module_utils.__path__, *utilities])
        state = importlib.import_module("ansible.module_utils.pdctl_state")
        patch.setattr(state, "KEPT", folder / "var" / "runs")
        patch.setattr(state, "CONVERGED", folder / "var" / "converged.json")
        patch.setattr(state, "PROC", folder / "proc")
        (folder / "var").mkdir()
        yield state


def answer_of(
    module: ModuleType, capsys: pytest.CaptureFixture[str], *, check: bool = False, **arguments: Any
) -> dict[str, Any]:
    """What the module answers when it runs in this process."""
    with patch_module_args({**arguments, "_ansible_check_mode": check}), pytest.raises(SystemExit):
        module.main()
    return dict(json.loads(capsys.readouterr().out))


class Programs:
    """Stands for AnsibleModule where a module only runs programs. answers: command line -> (exit code, stdout, stderr)."""

    def __init__(self, answers: Mapping[str, str | Answer | Callable[[], str]], check_mode: bool = False) -> None:
        self._answers = answers
        self.check_mode = check_mode
        self.ran: list[str] = []

    def run_command(self, argv: Sequence[str]) -> Answer:
        line = " ".join(argv)
        self.ran.append(line)
        answer = self._answers.get(line, (1, "", f"{argv[0]}: not found"))
        if callable(answer):
            answer = answer()
        return (0, answer, "") if isinstance(answer, str) else answer

    def get_bin_path(self, name: str) -> str | None:
        return name if any(line.split()[0] == name for line in self._answers) else None
