"""Nodes with an old Python: told apart by the role, taken to ansible-core 2.16; roles that both Ansibles read."""

import ast
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from pdctl.ansible_env import ansible_environment
from pdctl.content import content_root
from pdctl.errors import UsageError
from pdctl.provisioning import old_python
from pdctl.provisioning.outcome import Failure, HostResult

MODULES = sorted([*content_root().glob("roles/*/library/*.py"), *content_root().glob("roles/*/module_utils/*.py")])
PLAYBOOKS = sorted((content_root() / "playbooks").glob("*.yml"))


def _host(role: str, task: str) -> HostResult:
    return HostResult("n1", "192.0.2.1", failure=Failure(role, task, "Python 3.6 is below 3.8"), finished=True)


def test_the_role_has_the_task_by_which_pdctl_knows_such_a_host() -> None:
    tasks = yaml.safe_load((content_root() / "roles/python/tasks/main.yml").read_text(encoding="utf-8"))
    assert old_python.TASK in [task["name"] for task in tasks]


def test_only_a_host_that_ended_for_its_python_is_taken_again() -> None:
    old = _host("python", old_python.TASK)
    others = [_host("python", "another"), _host("preflight", old_python.TASK), HostResult("n2", "192.0.2.2")]
    assert old_python.too_old([*others, old]) == [old]


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no Python on PATH, and a cache of its own."""
    monkeypatch.setattr(old_python, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(old_python, "PYTHONS", ("0.1",))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def test_without_a_python_for_it_the_host_says_what_to_install(alone: Path) -> None:
    host = _host("python", old_python.TASK)
    with pytest.raises(UsageError) as raised:
        old_python.scripts_folder()
    old_python.explain([host], raised.value)
    assert host.failure is not None
    assert host.failure.message.startswith(
        "Python 3.6 is below 3.8. no Python of this machine can run ansible-core 2.16"
    )
    assert "dnf install python3.12" in host.failure.message


Make = Callable[[str], None]


@pytest.fixture
def python(alone: Path) -> Make:
    """Puts a program in the place of Python 0.1, which makes environments whose Python is that program."""

    def make(script: str) -> None:
        path = alone / "bin/python0.1"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    return make


MAKES = 'PATH=/usr/bin:/bin; if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi'


def test_the_environment_is_made_once(alone: Path, python: Make) -> None:
    python(f'{MAKES}; echo "$@" >>{alone}/told')
    first = old_python.scripts_folder()
    told = (alone / "told").read_text(encoding="utf-8").splitlines()
    assert next(line for line in told if "pip install" in line).endswith("ansible-core==2.16.*")
    assert old_python.scripts_folder() == first == alone / "cache/ansible-core-2.16/bin"
    again = (alone / "told").read_text(encoding="utf-8").splitlines()
    assert [line for line in again if "pip" in line] == [line for line in told if "pip" in line]


def test_one_that_cannot_be_made_leaves_nothing_and_says_why(alone: Path, python: Make) -> None:
    python(f'{MAKES}; if [ "$2" = pip ]; then echo "No matching distribution" >&2; exit 1; fi')
    with pytest.raises(UsageError) as raised:
        old_python.scripts_folder()
    assert "No matching distribution" in (raised.value.detail or "")
    assert not (alone / "cache/ansible-core-2.16").exists()


def test_a_shim_that_does_not_run_is_no_python(alone: Path, python: Make) -> None:
    python("exit 127")
    with pytest.raises(UsageError, match="no Python of this machine"):
        old_python.scripts_folder()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_that_runs_on_nodes_is_written_for_python_3_6(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))


@pytest.fixture(scope="module")
def second_ansible() -> Path:
    try:
        return old_python.scripts_folder() / "ansible-playbook"
    except UsageError as error:
        pytest.skip(f"{error.message}: {error.detail}")


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.stem)
def test_ansible_core_2_16_reads_every_playbook(second_ansible: Path, playbook: Path) -> None:
    argv = [str(second_ansible), "--syntax-check", "-i", "localhost,", str(playbook)]
    done = subprocess.run(argv, env=ansible_environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
