"""Inventories of both kinds are read as Ansible reads them; a wrong one gets one clear error."""

import subprocess
import sys
from pathlib import Path

import pytest

from pdctl.ansible_env import ansible_environment
from pdctl.content import content_root
from pdctl.errors import PdError, UsageError
from pdctl.exit_codes import ExitCode
from pdctl.inventory import load_inventory
from pdctl.reach.sudo import sudo_password

INI = """\
# 机房：两个池
[prefill]
p1 ansible_host=10.0.0.1 gpu_kind=h100 note="预填充"
[decode]
d1 ansible_host=10.0.0.2 ansible_port=2222 ansible_user=ops
[pools:children]
prefill
decode
[all:vars]
ansible_user=root
ansible_ssh_private_key_file=~/.ssh/fleet
"""
YAML = """\
all:
  vars: {ansible_user: root, ansible_ssh_private_key_file: ~/.ssh/fleet}
  children:
    pools:
      children:
        prefill:
          hosts:
            p1: {ansible_host: 10.0.0.1, gpu_kind: h100, note: 预填充}
        decode:
          hosts:
            d1: {ansible_host: 10.0.0.2, ansible_port: 2222, ansible_user: ops}
"""


def _written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_ini_and_yaml_give_the_same_hosts_under_lc_all_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    ini = load_inventory(_written(tmp_path, "hosts.ini", INI))
    yaml = load_inventory(_written(tmp_path, "hosts.yml", YAML))
    assert ini.hosts == yaml.hosts
    p1, d1 = ini.hosts
    assert (p1.name, p1.address, p1.port, p1.user, p1.groups) == ("p1", "10.0.0.1", 22, "root", ("pools", "prefill"))
    assert (d1.port, d1.user) == (2222, "ops")
    assert p1.private_key == Path("~/.ssh/fleet").expanduser()
    assert (p1.variables["gpu_kind"], p1.variables["note"]) == ("h100", "预填充")
    assert [host.name for host in ini.in_group("pools")] == ["p1", "d1"]


def test_variables_beside_the_inventory_count_and_its_policy_is_no_inventory() -> None:
    sample = content_root() / "inventories" / "sample"
    assert load_inventory(sample).hosts == load_inventory(sample / "hosts.yml").hosts
    assert {host.user for host in load_inventory(sample)} == {"ops"}


def test_a_limit_selects_hosts(tmp_path: Path) -> None:
    inventory = load_inventory(_written(tmp_path, "hosts.ini", INI), limit="decode")
    assert [host.name for host in inventory] == ["d1"]


def test_a_host_without_address_is_its_name_and_need_not_resolve(tmp_path: Path) -> None:
    (host,) = load_inventory(_written(tmp_path, "hosts.ini", "nowhere.invalid\n"))
    assert host.address == "nowhere.invalid"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("a.ini", "[prefill]\np1\np2 ansible_host\n", "line 3", id="ini-variable"),
        pytest.param("a.ini", "[prefill\np1\n", "line 1", id="ini-section"),
        pytest.param("a.ini", "[pools:children]\nnone\n", "undefined group", id="ini-undefined-group"),
        pytest.param("a.yml", "all:\n  hosts:\n    p1: {ansible_host: 1\n", "line", id="yaml-syntax"),
        pytest.param("a.yml", "all:\n  hosts:\n    p1: {}\n    p1: {}\n", "uplicate", id="yaml-host-twice"),
        pytest.param("a.ini", "p1\nnode[1:9999999]\n", "more than 10000 hosts", id="ini-range"),
        pytest.param("a.yml", "all:\n  hosts:\n    n[1:200]-[001:200]:\n", "more than 10000 hosts", id="yaml-range"),
        pytest.param("a.ini", f"n[1:{'9' * 5000}]\n", "more than 10000 hosts", id="endless-range"),
        pytest.param("a.ini", "# nobody\n", "has no hosts", id="empty"),
        pytest.param("a.ini", "a ansible_host=10.0.0.1\nb ansible_host=10.0.0.1\n", "one address", id="one-address"),
        pytest.param("a.ini", "a ansible_port=70000\n", "no usable port", id="port"),
    ],
)
def test_a_wrong_inventory_is_a_clear_usage_error(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_inventory(_written(tmp_path, name, text))
    assert said in caught.value.render()
    assert name in caught.value.message


def test_a_range_that_is_not_absurd_is_expanded(tmp_path: Path) -> None:
    hosts = [host.name for host in load_inventory(_written(tmp_path, "a.ini", "n[01:12]\nr-[a:c]\n"))]
    assert len(hosts) == 15 and {"n01", "n12", "r-a", "r-c"} <= set(hosts)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.ini", "[prefill]\np1 ansible_host=10.0.0.1 key=one\n[decode]\np1 ansible_host=10.0.0.9 key=two\n"),
        (
            "a.yml",
            "prefill: {hosts: {p1: {ansible_host: 10.0.0.1, key: one}}}\n"
            "decode: {hosts: {p1: {ansible_host: 10.0.0.9, key: two}}}\n",
        ),
    ],
)
def test_a_host_with_two_values_of_a_variable_is_warned_of_and_no_secret_is_told(
    tmp_path: Path, name: str, text: str
) -> None:
    inventory = load_inventory(_written(tmp_path, name, text))
    address, key = inventory.warnings
    assert "`p1`" in address and "`10.0.0.1` in group `prefill`, `10.0.0.9` in group `decode`" in address
    assert "`key`" in key and "two values" in key and "`two`" not in key
    assert inventory.get("p1").address == "10.0.0.9"


def test_a_host_that_stands_in_two_groups_is_no_conflict(tmp_path: Path) -> None:
    text = "[prefill]\np1 ansible_host=10.0.0.1\n[big]\np1\n[more]\np1 ansible_host=10.0.0.1 gpu_kind=h100\n"
    assert load_inventory(_written(tmp_path, "a.ini", text)).warnings == ()


def test_variables_of_the_connection_are_those_that_a_play_would_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("of the vault\n", encoding="utf-8")
    command = (sys.executable, "-m", "ansible", "vault", "encrypt_string", "--vault-password-file", tmp_path / "key")
    environment = ansible_environment()
    vault = subprocess.run(
        [*command, "--name", "site_sudo", "correct horse"], env=environment, capture_output=True, check=True, timeout=60
    ).stdout.decode()
    group = (
        "ansible_become_password: '{{ site_sudo }}'\nansible_ssh_common_args: '-J {{ hostvars.gate.ansible_host }}'\n"
    )
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text(group + vault, encoding="utf-8")
    source = _written(
        tmp_path, "a.ini", "gate ansible_host=203.0.113.7\np1 ansible_host='{{ inventory_hostname }}.example'\n"
    )

    # As Ansible reads it: from the folder that the operator stands in.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", "key")
    inventory = load_inventory(source, limit="p1")
    host = inventory.get("p1")
    assert host.address == "p1.example"
    assert host.variables["ansible_ssh_common_args"] == "-J 203.0.113.7"
    assert sudo_password(host, None) == "correct horse"

    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", "other")
    with pytest.raises(UsageError, match="vault") as refused:
        load_inventory(source, limit="p1")
    assert f"{tmp_path / 'other'} was not found" in f"{refused.value.detail}"

    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE")
    with pytest.raises(UsageError, match="vault") as refused:
        load_inventory(source, limit="p1")
    assert "ansible_become_password" in f"{refused.value.message} {refused.value.detail}"


def test_a_missing_inventory_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no inventory at"):
        load_inventory(tmp_path / "none.ini")


def test_a_limit_that_selects_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_inventory(_written(tmp_path, "hosts.ini", INI), limit="nobody")
    assert "nobody" in caught.value.message


def test_two_hosts_behind_one_address_with_their_own_ports_are_two(tmp_path: Path) -> None:
    text = "a ansible_host=10.0.0.1 ansible_port=2201\nb ansible_host=10.0.0.1 ansible_port=2202\n"
    assert len(load_inventory(_written(tmp_path, "hosts.ini", text))) == 2


def test_a_dynamic_inventory_that_hangs_is_given_up(tmp_path: Path) -> None:
    path = _written(tmp_path, "hosts.sh", "#!/bin/sh\nexec sleep 60\n")
    path.chmod(0o755)
    with pytest.raises(PdError) as caught:
        load_inventory(path, deadline_s=3)
    assert caught.value.code is ExitCode.INCOMPLETE


def test_an_unknown_name_is_answered_with_those_that_exist(tmp_path: Path) -> None:
    inventory = load_inventory(_written(tmp_path, "hosts.ini", INI))
    assert inventory.get("d1").address == "10.0.0.2"
    with pytest.raises(UsageError) as caught:
        inventory.get("d9")
    assert "p1, d1" in caught.value.render()
