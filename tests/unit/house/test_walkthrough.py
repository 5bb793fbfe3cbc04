"""What the walk-through shows of commands that need no node is what they print; `...` stands for lines left out."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pdctl.app import app

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "walkthrough.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEP = re.compile(r"^\$ pdctl (?P<line>.*)\n(?P<shown>(?:(?!\$ ).*\n)*)", re.MULTILINE)


def _steps() -> list[tuple[str, str]]:
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    return [(step["line"], step["shown"]) for block in blocks for step in _STEP.finditer(block)]


@pytest.mark.parametrize(("line", "shown"), _steps(), ids=[line for line, _shown in _steps()])
def test_a_step_prints_what_is_shown(monkeypatch: pytest.MonkeyPatch, line: str, shown: str) -> None:
    monkeypatch.chdir(ROOT)
    # Quoted words are one argument; no step needs a shell otherwise.
    words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", line)]
    ran = CliRunner().invoke(app, words)
    parts = [re.escape(part) for part in shown.split("...\n")]
    assert re.fullmatch("(?:.*\n)*".join(parts), ran.stdout), ran.stdout


def test_there_are_such_steps() -> None:
    assert len(_steps()) >= 5
