"""A plan is applied exactly, and refused by name once a node or the policy has moved."""

import json
from pathlib import Path

import jsonschema
import pytest
from tests.lab.nodes import Lab
from tests.lab.site import Site, differences, policy, snapshot

from pdctl.content import content_root

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SYSCTLS = ("net.ipv4.tcp_rmem", "net.core.somaxconn")
SCHEMA = content_root() / "cli/pdctl/provisioning/plan.schema.json"


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    lab.up(["n1", "n2"])
    return Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1"], "decode": ["n2"]})


def test_a_plan_is_refused_by_what_moved_and_else_done_exactly(site: Site, tmp_path: Path) -> None:
    def look() -> dict[str, str]:
        return {name: snapshot(node, SYSCTLS) for name, node in site.lab.nodes.items()}

    path, inventory = tmp_path / "plan.json", site.ini()
    bare = look()
    made = site.provision(inventory, "--tags", "sysctl,limits", "--plan-out", str(path), "-o", "json")
    assert made.code == 0, made.stderr
    assert look() == bare
    plan = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(plan, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert {host["impact"] for host in plan["hosts"].values()} == {"restart-engine"}

    site.write_policy(policy() | {"limits": {"memlock": 64, "nofile": 900}})
    refused = site.pdctl("provision", "--apply-plan", str(path))
    site.write_policy(policy())
    assert refused.code == 2 and "policy: policy.yml beside the inventory" in refused.stderr

    site.lab.nodes["n2"].ssh("sysctl -qw net.core.somaxconn=77")
    refused = site.pdctl("provision", "--apply-plan", str(path))
    assert refused.code == 2 and "node n2: /proc/sys/net/core/somaxconn" in refused.stderr
    assert differences(bare["n1"], snapshot(site.lab.nodes["n1"], SYSCTLS)) == []

    old = next(line for line in bare["n2"].splitlines() if line.startswith("net/core/somaxconn")).split()[-1]
    site.lab.nodes["n2"].ssh(f"sysctl -qw net.core.somaxconn={old}")
    applied = site.pdctl("provision", "--apply-plan", str(path), "--canary", "1", "-o", "json")
    assert applied.code == 0, applied.stderr
    for host in applied.document["hosts"]:
        done = [(change["role"], change["task"]) for change in host["changes"]]
        assert done == [(change["role"], change["task"]) for change in plan["hosts"][host["name"]]["changes"]]
        assert host["problems"] == []

    again = site.pdctl("provision", "--apply-plan", str(path))
    assert again.code == 2 and "node n1: " in again.stderr
