"""The doctor and the roles resolve a node's policy by one rule."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from pdchecks.policy import Layer, read_layer, resolve
from pdctl.ansible_env import ansible_environment
from pdctl.content import content_root
from pdctl.inventory import load_inventory
from pdctl.policy_source import policy_for

SITE = "locale: {candidates: [en_US.UTF-8]}\nsysctl: {net.core.rmem_max: null}\nfabric: {mtu: {netdev: 9000}}\n"
HOST = {"fabric": {"mtu": {"roce": 1024}, "cnp": {"dscp": 44}}, "limits": {"nofile": 5000}}
PLAY = """\
- hosts: all
  gather_facts: false
  roles: [policy]
  tasks:
    - ansible.builtin.copy: {content: "{{ policy | to_json }}", dest: "{{ target }}", mode: "0600"}
      delegate_to: localhost
      connection: local
"""


def _by_ansible(folder: Path, inventory: Path) -> dict[str, Any]:
    play, target = folder / "play.yml", folder / "resolved.json"
    play.write_text(PLAY, encoding="utf-8")
    playbook = Path(sys.executable).with_name("ansible-playbook")
    argv = [str(playbook), "-i", str(inventory), str(play), "-e", json.dumps({"target": str(target)})]
    done = subprocess.run(argv, env=ansible_environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    resolved: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    return resolved


def test_three_layers_give_one_policy_on_both_sides(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.ini"
    inventory.write_text(f"n1 ansible_connection=local pdctl_policy='{json.dumps(HOST)}'\n", encoding="utf-8")
    (tmp_path / "policy.yml").write_text(SITE, encoding="utf-8")
    resolved = _by_ansible(tmp_path, inventory)
    doctors = policy_for(load_inventory(inventory))("n1").values.model_dump(exclude_unset=True)
    assert doctors == resolved
    shipped = resolve([read_layer(content_root() / "roles/policy/files/policy.yml")]).values
    assert resolved["fabric"]["mtu"] == {"roce": 1024, "netdev": 9000}
    assert resolved["fabric"]["cnp"] == {"dscp": 44, "priority": shipped.fabric.cnp.priority}
    assert resolved["locale"]["candidates"] == ["en_US.UTF-8"]
    assert resolved["sysctl"]["net.core.rmem_max"] is None
    assert resolved["limits"] == {"memlock": shipped.limits.memlock, "nofile": 5000}
    assert resolve([Layer("x", resolved)]).values.model_dump(exclude_unset=True) == resolved
