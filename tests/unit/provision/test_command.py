"""`pdctl provision` refuses what it cannot do before anything runs, and keeps secrets to itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdctl.ansible_env import ansible_environment
from pdctl.errors import UsageError
from pdctl.provisioning.options import Options
from pdctl.provisioning.runner import _extra_vars


def _pdctl(*arguments: str, state: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"XDG_STATE_HOME": str(state), "LC_ALL": "C"}
    argv = [sys.executable, "-m", "pdctl", "provision", *arguments]
    return subprocess.run(
        argv, capture_output=True, text=True, encoding="utf-8", env=environment, stdin=subprocess.DEVNULL, timeout=60
    )


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.ini"
    path.write_text("甲一 ansible_host=192.0.2.1\n", encoding="utf-8")
    return path


def test_no_inventory_is_a_usage_error(tmp_path: Path) -> None:
    done = _pdctl(state=tmp_path)
    assert done.returncode == 2
    assert "give one inventory" in done.stderr


def test_the_sudo_password_is_asked_for_on_a_terminal_only(tmp_path: Path, inventory: Path) -> None:
    done = _pdctl(str(inventory), "-K", state=tmp_path)
    assert done.returncode == 2
    assert "no terminal" in done.stderr and "ansible_become_password" in done.stderr


def test_a_wrong_extra_variable_is_refused_without_printing_its_value(tmp_path: Path, inventory: Path) -> None:
    done = _pdctl("-i", str(inventory), "-e", "{token: hunter2", state=tmp_path)
    assert done.returncode == 2
    assert "cannot read `-e" in done.stderr
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize("option", ["--tags", "--skip-tags"])
def test_a_tag_that_no_role_has_is_refused_with_those_that_exist(tmp_path: Path, inventory: Path, option: str) -> None:
    done = _pdctl(str(inventory), option, "sysctl,sysclt", state=tmp_path)
    assert done.returncode == 2
    assert "no such tag: sysclt" in done.stderr
    assert "limits, locale, rdma, safe_yum, sysctl" in done.stderr


def test_a_missing_inventory_leaves_no_record(tmp_path: Path) -> None:
    done = _pdctl(str(tmp_path / "none.ini"), state=tmp_path / "state")
    assert done.returncode == 2
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        (("a=1 b='two words'",), {"a": "1", "b": "two words"}),
        (('{"a": 1, "b": [2]}', "a=3"), {"a": "3", "b": [2]}),
    ],
)
def test_extra_variables_merge_and_the_later_wins(given: tuple[str, ...], merged: dict[str, object]) -> None:
    assert _extra_vars(given) == merged


def test_extra_variables_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "vars.yml"
    path.write_text("note: 你好\n", encoding="utf-8")
    assert _extra_vars((f"@{path}",)) == {"note": "你好"}
    with pytest.raises(UsageError, match=r"cannot read `-e @"):
        _extra_vars((f"@{tmp_path / 'none.yml'}",))


def test_the_record_of_options_holds_no_value_of_an_extra_variable() -> None:
    options = Options(
        Path("i"), Path("p.yml"), extra_vars=("token=hunter2", "{token: hunter2}"), become_password="hunter2"
    )
    assert "hunter2" not in repr(options.for_record())
    assert options.for_record()["extra_vars"] == ["token", "(inline)"]


def test_ansible_gets_a_utf8_locale_whatever_the_user_has() -> None:
    environment = ansible_environment({"LC_ALL": "C", "LANG": "zh_CN.GBK", "LANGUAGE": "zh", "PATH": "/bin"})
    assert environment["LC_ALL"].upper().replace("-", "").endswith("UTF8")
    assert "LANGUAGE" not in environment
    assert environment["PATH"] == "/bin"


@pytest.mark.parametrize("given", ['a="SEKRET', "a=SEKRET{{", "{a: [SEKRET", '{"a": "SEKRET'])
def test_extra_vars_that_cannot_be_read_are_a_usage_error_that_keeps_the_value_to_itself(given: str) -> None:
    with pytest.raises(UsageError, match="cannot read") as caught:
        _extra_vars((given,))
    assert "SEKRET" not in caught.value.render()
    assert caught.value.__cause__ is None
