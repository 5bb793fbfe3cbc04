"""`pdctl provision` refuses what it cannot do before anything runs, and keeps secrets to itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdctl.ansible_env import ansible_environment, unheeded
from pdctl.errors import UsageError
from pdctl.provisioning.options import Options
from pdctl.provisioning.runner import extra_variables


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


def test_without_any_stdin_there_is_no_terminal_either(tmp_path: Path, inventory: Path) -> None:
    argv = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "pdctl", "provision", str(inventory), "-K"]
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, "there is no terminal" in done.stderr) == (2, True)


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
    known = done.stderr.split("the tags are: ")[1].strip().split(", ")
    assert {"limits", "locale", "rdma", "safe_yum", "sysctl"} <= set(known)
    assert known == sorted(known)


def test_a_missing_inventory_leaves_no_record(tmp_path: Path) -> None:
    done = _pdctl(str(tmp_path / "none.ini"), state=tmp_path / "state")
    assert done.returncode == 2
    assert not (tmp_path / "state").exists()


def test_without_an_ssh_program_it_says_so_before_it_begins(tmp_path: Path, inventory: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(empty))
        done = _pdctl(str(inventory), state=tmp_path / "state")
    assert done.returncode == 2
    assert "no `ssh` on PATH" in done.stderr and "甲一" in done.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        (("a=1 b='two words'",), {"a": "1", "b": "two words"}),
        (('{"a": 1, "b": [2]}', "a=3"), {"a": "3", "b": [2]}),
    ],
)
def test_extra_variables_merge_and_the_later_wins(given: tuple[str, ...], merged: dict[str, object]) -> None:
    assert extra_variables(given) == merged


def test_extra_variables_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "vars.yml"
    path.write_text("note: 你好\n", encoding="utf-8")
    assert extra_variables((f"@{path}",)) == {"note": "你好"}
    with pytest.raises(UsageError, match=r"cannot read `-e @"):
        extra_variables((f"@{tmp_path / 'none.yml'}",))


def test_a_date_of_an_extra_variable_is_its_text_as_ansible_reads_it() -> None:
    assert extra_variables(("{released: 2026-01-02, at: [2026-01-02 03:04:05]}",)) == {
        "released": "2026-01-02",
        "at": ["2026-01-02 03:04:05"],
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{a: !!binary aGVsbG8=}", "JSON does not have"),
        ("{a: !!set {x: null}}", "JSON does not have"),
        ("{2026-01-02: a}", "JSON does not have"),
        ("{a: &a [*a]}", "leads back to itself"),
    ],
)
def test_an_extra_variable_that_no_file_of_json_can_hold_is_a_usage_error(given: str, said: str) -> None:
    with pytest.raises(UsageError, match="cannot read `-e") as caught:
        extra_variables((given,))
    assert said in str(caught.value.detail)


def test_a_file_of_extra_variables_that_is_a_vault_or_a_pipe_says_so(tmp_path: Path) -> None:
    (tmp_path / "vault.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n6161\n", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is a vault"):
        extra_variables((f"@{tmp_path / 'vault.yml'}",))
    with pytest.raises(UsageError) as caught:
        extra_variables((f"@{tmp_path / 'pipe'}",))
    assert caught.value.detail == "not a regular file"


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


def test_settings_of_ansible_that_would_change_what_a_run_does_are_left_out_and_those_of_reach_kept() -> None:
    given = {
        **{f"ANSIBLE_{name}": "x" for name in ("SKIP_TAGS", "ROLES_PATH", "TRANSPORT", "UNSAFE_WRITES", "VERBOSITY")},
        **{f"ANSIBLE_{name}": "x" for name in ("REMOTE_USER", "VAULT_PASSWORD_FILE", "SSH_ARGS", "HASHI_VAULT_TOKEN")},
    }
    assert unheeded(given) == [
        f"ANSIBLE_{n}" for n in ("ROLES_PATH", "SKIP_TAGS", "TRANSPORT", "UNSAFE_WRITES", "VERBOSITY")
    ]
    assert set(ansible_environment(given)) & set(given) == {
        f"ANSIBLE_{name}" for name in ("REMOTE_USER", "VAULT_PASSWORD_FILE", "SSH_ARGS", "HASHI_VAULT_TOKEN")
    }


@pytest.mark.parametrize("given", ['a="SEKRET', "a=SEKRET{{", "{a: [SEKRET", '{"a": "SEKRET'])
def testextra_variables_that_cannot_be_read_are_a_usage_error_that_keeps_the_value_to_itself(given: str) -> None:
    with pytest.raises(UsageError, match="cannot read") as caught:
        extra_variables((given,))
    assert "SEKRET" not in caught.value.render()
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("beside", [("--limit", "n1"), ("--tags", "sysctl"), ("--check",), ("--plan-out", "x")])
def test_a_plan_says_by_itself_which_nodes_and_roles_are_meant(tmp_path: Path, beside: tuple[str, ...]) -> None:
    done = _pdctl("--apply-plan", "plan.json", *beside, state=tmp_path)
    assert (done.returncode, "says by itself" in done.stderr) == (2, True)


def test_a_plan_that_is_no_file_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done = _pdctl("--apply-plan", str(tmp_path / "none.json"), state=tmp_path / "state")
    assert (done.returncode, "no plan in" in done.stderr) == (2, True)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("given", [("--serial", "0"), ("--serial", "101%"), ("--canary", "0")])
def test_a_batch_that_is_none_is_refused_before_a_record_begins(
    tmp_path: Path, inventory: Path, given: tuple[str, ...]
) -> None:
    done = _pdctl(str(inventory), *given, state=tmp_path / "state")
    assert done.returncode == 2, done.stderr
    assert not (tmp_path / "state").exists()
