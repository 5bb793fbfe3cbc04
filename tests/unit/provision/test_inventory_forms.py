"""Whatever form an inventory has, pdctl reads of a host what a play does: for `inventory show`, the doctor and provision alike."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pdctl.ansible_env import ansible_environment
from pdctl.app import app
from pdctl.inventory import load_inventory
from pdctl.policy_source import policy_for
from pdctl.reach.ssh_target import ssh_target

BIN = Path(sys.executable).parent
SECRET = "correct horse"
PLAY = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        content: "{{ {'address': ansible_host, 'user': ansible_user, 'kind': gpu_kind, 'password': ansible_password,
          'policy': pdctl_policy} | to_json }}"
        dest: "{{ target }}/{{ inventory_hostname }}.json"
        mode: "0600"
      delegate_to: localhost
      vars: {ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}"}
"""
# What all forms say of the two hosts; the address of p1 is put together from another variable.
WANTED = {
    name: {
        "address": f"10.0.7.{number}",
        "user": "ops",
        "kind": kind,
        "password": SECRET,
        "policy": {"fabric": {"dscp": 40}},
    }
    for name, number, kind in (("p1", 1, "h100"), ("d1", 2, "a100"))
}
GROUPS = "ansible_user: ops\nrack: 10.0.7\npdctl_policy: {fabric: {dscp: 40}}\n"


def _write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def _vault(folder: Path, *arguments: str) -> str:
    """The password's file is the one that pdctl is told of, by the same variable."""
    environment = ansible_environment() | {"ANSIBLE_VAULT_PASSWORD_FILE": str(folder / "vault-password")}
    argv = [sys.executable, "-m", "ansible.cli.vault", *arguments]
    done = subprocess.run(argv, env=environment, capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _ini_with_vars_beside_it_and_a_vault(folder: Path) -> Path:
    _write(folder / "group_vars" / "all" / "main.yml", GROUPS)
    secret = _write(folder / "group_vars" / "all" / "vault.yml", f"vault_password: {SECRET}\n")
    _vault(folder, "encrypt", str(secret))
    _write(folder / "group_vars" / "all" / "login.yml", 'ansible_password: "{{ vault_password }}"\n')
    _write(folder / "host_vars" / "p1.yml", 'ansible_host: "{{ rack }}.1"\ngpu_kind: h100\n')
    _write(folder / "host_vars" / "d1.json", '{"ansible_host": "10.0.7.2", "gpu_kind": "a100"}\n')
    return _write(folder / "hosts.ini", "[prefill]\np1\n[decode]\nd1 gpu_kind=overridden_by_host_vars\n")


def _yaml_with_a_vault_in_the_line(folder: Path) -> Path:
    encrypted = _vault(folder, "encrypt_string", SECRET, "--name", "ansible_password")
    lines = "".join(f"    {line}\n" for line in (GROUPS + encrypted).splitlines())
    hosts = (
        "  children:\n"
        '    prefill: {vars: {gpu_kind: h100}, hosts: {p1: {ansible_host: "{{ rack }}.1"}}}\n'
        "    decode: {vars: {gpu_kind: a100}, hosts: {d1: {ansible_host: 10.0.7.2}}}\n"
    )
    return _write(folder / "hosts.yml", f"all:\n  vars:\n{lines}{hosts}")


def _script(folder: Path) -> Path:
    document = {
        "prefill": {"hosts": ["p1"], "vars": {"gpu_kind": "h100"}},
        "decode": {"hosts": ["d1"], "vars": {"gpu_kind": "a100"}},
        "all": {"vars": {"ansible_user": "ops", "rack": "10.0.7", "ansible_password": SECRET}},
        "_meta": {
            "hostvars": {
                "p1": {"ansible_host": "{{ rack }}.1", "pdctl_policy": {"fabric": {"dscp": 40}}},
                "d1": {"ansible_host": "10.0.7.2", "pdctl_policy": {"fabric": {"dscp": 40}}},
            }
        },
    }
    return _write(folder / "cmdb", f"#!/bin/sh\ncat <<'E'\n{json.dumps(document)}\nE\n", 0o755)


def _folder_of_several(folder: Path) -> Path:
    _write(folder / "site" / "policy.yml", "fabric: {cable_length_m: 30}\n")
    _write(folder / "site" / "group_vars" / "all.yml", f"{GROUPS}ansible_password: {SECRET}\n")
    _write(folder / "site" / "01-prefill.ini", "[prefill]\np1 gpu_kind=h100 ansible_host='{{ rack }}.1'\n")
    _write(folder / "site" / "02-decode.yml", "decode: {hosts: {d1: {gpu_kind: a100, ansible_host: 10.0.7.2}}}\n")
    return folder / "site"


FORMS = (_ini_with_vars_beside_it_and_a_vault, _yaml_with_a_vault_in_the_line, _script, _folder_of_several)


@pytest.fixture(params=FORMS, ids=lambda form: form.__name__.strip("_"))
def inventory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    password = _write(tmp_path / "vault-password", "of the vault\n", 0o600)
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password))
    form: Callable[[Path], Path] = request.param
    return form(tmp_path)


def _by_a_play(inventory: Path, folder: Path) -> dict[str, Any]:
    play = _write(folder / "play.yml", PLAY)
    target = folder / "seen"
    target.mkdir()
    argv = [str(BIN / "ansible-playbook"), "-i", str(inventory), str(play), "-e", json.dumps({"target": str(target)})]
    done = subprocess.run(argv, env=ansible_environment(), capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in target.iterdir()}


def test_pdctl_reads_of_a_host_what_a_play_does(inventory: Path, tmp_path: Path) -> None:
    assert _by_a_play(inventory, tmp_path) == WANTED
    loaded = load_inventory(inventory)
    for host in loaded:
        wanted = WANTED[host.name]
        target = ssh_target(host)
        assert (target.host, target.user, target.password) == (wanted["address"], wanted["user"], SECRET)
        assert (host.variables["gpu_kind"], host.variables["pdctl_policy"]) == (wanted["kind"], wanted["policy"])
        assert policy_for(loaded)(host.name).values.fabric.dscp == 40


def test_show_and_validate_read_it_and_tell_no_secret(inventory: Path) -> None:
    shown = CliRunner().invoke(app, ["inventory", "show", str(inventory), "-o", "json"])
    rows = {row["name"]: (row["address"], row["user"], row["gpu_kind"]) for row in json.loads(shown.stdout)["hosts"]}
    assert rows == {name: (host["address"], host["user"], host["kind"]) for name, host in WANTED.items()}
    judged = CliRunner().invoke(
        app, ["inventory", "validate", str(inventory), "--limit", "decode", "-e", "gpu_kind=h99"]
    )
    assert judged.exit_code == 2
    assert "host `d1`: unknown GPU kind `h99`" in judged.stdout and "p1" not in judged.stdout
    assert SECRET not in shown.output + judged.output


@pytest.mark.parametrize("password", ["", "another one\n"], ids=["none", "wrong"])
def test_a_vault_that_does_not_open_is_named_with_the_way_to_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    _write(tmp_path / "vault-password", "of the vault\n", 0o600)
    path = _ini_with_vars_beside_it_and_a_vault(tmp_path)
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE", raising=False)
    if password:
        monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(_write(tmp_path / "other", password, 0o600)))
    ran = subprocess.run(
        [sys.executable, "-m", "pdctl", "provision", str(path), "--check"],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
    )
    assert ran.returncode == 2 and not (tmp_path / "state").exists()
    assert "a vault of the inventory" in ran.stderr and "ANSIBLE_VAULT_PASSWORD_FILE" in ran.stderr


def test_a_run_takes_limit_tags_and_variables_over_a_script(tmp_path: Path) -> None:
    """Of two hosts one is chosen; the other would fail, since nothing answers there."""
    document = {
        "all": {"hosts": ["here", "away"]},
        "_meta": {
            "hostvars": {
                "here": {
                    "ansible_connection": "local",
                    "ansible_python_interpreter": sys.executable,
                    "gpu_kind": "cpu",
                },
                "away": {"ansible_host": "192.0.2.1"},
            }
        },
    }
    path = _write(tmp_path / "cmdb", f"#!/bin/sh\ncat <<'E'\n{json.dumps(document)}\nE\n", 0o755)
    options = ("--limit", "here", "--tags", "sysctl", "-e", "preflight_minimum_python=99.0", "-o", "json", "--check")
    ran = subprocess.run(
        [sys.executable, "-m", "pdctl", "provision", str(path), *options],
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        stdin=subprocess.DEVNULL,
    )
    (host,) = json.loads(ran.stdout)["hosts"]
    assert host["name"] == "here" and "is below 99.0" in host["failure"]["message"]
