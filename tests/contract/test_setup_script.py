"""scripts/setup on machines that lack something. The interpreters are shell scripts; nothing is installed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "dirname", "sort", "paste", "grep", "cat", "tr", "sed", "cksum", "uname", "rm")
# Answers of a Python that is old, and of Debian's, which comes without ensurepip.
OLD = '#!/bin/sh\n[ "$1" = --version ] && { echo Python 3.9.2; exit 0; }\nexit 1\n'
WITHOUT_VENV = """#!/bin/sh
case "$*" in
*ensurepip*) exit 1 ;;
*'print('*) echo 3.11 ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the script reads, and a PATH with plain tools only."""
    (tmp_path / "scripts").mkdir()
    shutil.copy2(ROOT / "scripts" / "setup", tmp_path / "scripts" / "setup")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy2(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / "bin" / tool).symlink_to(found)
    return tmp_path


def _setup(checkout: Path, python: str | None) -> subprocess.CompletedProcess[str]:
    if python is not None:
        (checkout / "bin" / "python3").write_text(python, encoding="utf-8")
        (checkout / "bin" / "python3").chmod(0o755)
    environment = {"PATH": str(checkout / "bin"), "HOME": os.environ["HOME"]}
    return subprocess.run(
        [checkout / "scripts" / "setup"], env=environment, capture_output=True, encoding="utf-8", timeout=30
    )


def _named(text: str) -> str:
    """The hint; it depends on the family of the machine that runs this."""
    hint = next(line for line in text.splitlines() if line.startswith("hint: "))
    assert hint.startswith(("hint: apt-get install python3", "hint: dnf install python3", "hint: install Python 3.11"))
    return hint


@pytest.mark.parametrize(("python", "found"), [(OLD, "Python 3.9.2"), (None, "no python3")])
def test_without_a_new_enough_python_it_says_what_it_found_and_what_to_install(
    checkout: Path, python: str | None, found: str
) -> None:
    done = _setup(checkout, python)
    assert done.returncode == 1 and found in done.stderr
    assert "python3" in _named(done.stderr) or "Python 3.11" in _named(done.stderr)
    assert not (checkout / ".venv").exists()


def test_without_venv_it_names_the_one_package_and_leaves_no_half_environment(checkout: Path) -> None:
    done = _setup(checkout, WITHOUT_VENV)
    assert done.returncode == 1 and "no venv or no pip" in done.stderr
    assert len(_named(done.stderr).split(" install ")[1].split()) == 1 or "with venv and pip" in done.stderr
    assert not (checkout / ".venv").exists()


def test_an_environment_that_is_complete_is_left_alone_at_once(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    python.chmod(0o755)
    (checkout / ".venv" / "pdctl-extras").write_text("engine\n", encoding="utf-8")
    digest = subprocess.run(
        ["sh", "-c", "{ cat pyproject.toml constraints.txt; echo engine; } | cksum"],
        cwd=checkout, capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    (checkout / ".venv" / "pdctl-setup").write_text(digest.stdout, encoding="utf-8")
    done = _setup(checkout, None)
    assert (done.returncode, done.stderr) == (0, "")
    (checkout / "constraints.txt").write_text("torch==0.0.1\n", encoding="utf-8")
    assert _setup(checkout, None).returncode != 0, "a changed pin must not pass as done"
