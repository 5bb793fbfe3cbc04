"""scripts/setup on machines that lack something. The interpreters are shell scripts; nothing is installed."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "dirname", "sort", "paste", "grep", "cat", "tr", "sed", "cksum", "uname", "rm", "date")
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


def _complete(checkout: Path) -> None:
    """What a setup that ended well leaves."""
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


def test_an_environment_that_is_complete_is_left_alone_at_once(checkout: Path) -> None:
    _complete(checkout)
    done = _setup(checkout, None)
    assert (done.returncode, done.stderr) == (0, "")
    (checkout / "constraints.txt").write_text("torch==0.0.1\n", encoding="utf-8")
    assert _setup(checkout, None).returncode != 0, "a changed pin must not pass as done"


def test_an_environment_without_extras_can_be_given_one_later(checkout: Path) -> None:
    """What a setup of the core leaves is a blank line."""
    _complete(checkout)
    (checkout / ".venv" / "pdctl-extras").write_text("\n", encoding="utf-8")
    done = _setup(checkout, None)
    assert (done.returncode, done.stderr) == (0, ""), "the digest is that of `engine` alone"


@contextlib.contextmanager
def _another_setup(checkout: Path) -> Iterator[None]:
    with (checkout / ".setup.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _begin(checkout: Path, wait_s: str) -> subprocess.Popen[str]:
    (checkout / "bin" / "python3").symlink_to(sys.executable)
    environment = {"PATH": str(checkout / "bin"), "HOME": os.environ["HOME"], "SETUP_WAIT_S": wait_s}
    return subprocess.Popen([checkout / "scripts" / "setup"], env=environment, stderr=subprocess.PIPE, encoding="utf-8")


def test_a_second_setup_gives_up_at_its_deadline_and_touches_nothing(checkout: Path) -> None:
    with _another_setup(checkout):
        _, said = (second := _begin(checkout, "0.3")).communicate(timeout=60)
    assert second.returncode == 1
    assert "another setup of this checkout is at work" in said and "did not end within 0.3 s" in said
    assert not (checkout / ".venv").exists()


def test_a_second_setup_waits_for_the_first_and_finds_its_work_done(checkout: Path) -> None:
    with _another_setup(checkout):
        second = _begin(checkout, "120")
        assert second.stderr is not None
        assert "waiting for it" in second.stderr.readline()
        _complete(checkout)
    _, said = second.communicate(timeout=60)
    assert (second.returncode, said) == (0, "")


def test_an_extra_that_does_not_exist_is_refused(checkout: Path) -> None:
    done = subprocess.run([checkout / "scripts" / "setup", "engnie"], capture_output=True, encoding="utf-8", timeout=30)
    assert done.returncode == 2 and "engnie" in done.stderr and "core|engine|dev" in done.stderr
    assert not (checkout / ".venv").exists()


def test_the_stages_are_listed_and_a_wrong_name_refused_before_anything_is_installed(checkout: Path) -> None:
    for name in ("test", "stages.py"):
        shutil.copy2(ROOT / "scripts" / name, checkout / "scripts" / name)
    listed, refused = (
        subprocess.run([checkout / "scripts" / "test", word], capture_output=True, encoding="utf-8", timeout=30)
        for word in ("--list", "untit")
    )
    assert listed.returncode == 0 and {"unit", "lab"} <= set(listed.stdout.split())
    assert refused.returncode == 2 and "no such stage: untit" in refused.stderr
    assert not (checkout / ".venv").exists()
