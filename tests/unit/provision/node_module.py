"""Modules that run on nodes, loaded from their roles; and what a node's programs print, in place of the programs."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from pdctl.content import content_root

Answer = tuple[int, str, str]


def node_module(role: str, name: str) -> ModuleType:
    path = content_root() / "roles" / role / "library" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


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
