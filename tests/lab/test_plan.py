"""A plan is applied exactly, and refused by name once a node or the policy has moved; also by a run that goes on."""

import json
import os
import signal
from pathlib import Path

import jsonschema
import pytest
from tests.lab.nodes import Lab, wait_until
from tests.lab.site import PDCTL, RUN_DEADLINE_S, Site, differences, policy, snapshot

from pdctl.content import content_root

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SYSCTLS = ("net.ipv4.tcp_rmem", "net.core.somaxconn")
SCHEMA = content_root() / "cli/pdctl/provisioning/plan.schema.json"


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    lab.up(["n1", "n2", "n3", "n4"])
    return Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1", "n3"], "decode": ["n2", "n4"]})


def test_a_plan_is_refused_by_what_moved_and_else_done_exactly(site: Site, tmp_path: Path) -> None:
    def look() -> dict[str, str]:
        return {name: snapshot(site.lab.nodes[name], SYSCTLS) for name in ("n1", "n2")}

    path, inventory = tmp_path / "plan.json", site.ini()
    bare = look()
    options = ("--limit", "n1,n2", "--tags", "sysctl,limits", "-o", "json")
    made = site.provision(inventory, "--plan-out", str(path), *options)
    assert made.code == 0, made.stderr
    assert f"pdctl provision --apply-plan {path}" in made.stderr
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


def test_a_run_of_a_plan_that_was_killed_goes_on_exactly_or_names_what_moved(site: Site, tmp_path: Path) -> None:
    path, inventory = tmp_path / "plan.json", site.ini()
    begun, waiting = site.lab.nodes["n3"], site.lab.nodes["n4"]
    options = ("--limit", "n3,n4", "--tags", "sysctl", "-o", "json")
    made = site.provision(inventory, "--plan-out", str(path), *options)
    assert made.code == 0, made.stderr
    plan = json.loads(path.read_text(encoding="utf-8"))

    # The look before it is a run too: the second new record is the one that changes nodes.
    records = len(list(site.runs.iterdir()))
    process = site.lab.start(str(PDCTL), "provision", "--apply-plan", str(path), "--canary", "1", "-o", "json")
    try:
        wait_until((begun.root / "etc/sysctl.d/90-pdctl.conf").exists, RUN_DEADLINE_S, "the first change of the run")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    run = site.newest_run()
    assert run is not None and len(list(site.runs.iterdir())) == records + 2

    old = waiting.ssh("sysctl -n net.core.somaxconn; sysctl -qw net.core.somaxconn=77").strip()
    before = snapshot(waiting, SYSCTLS)
    refused = site.pdctl("runs", "resume", run)
    assert refused.code == 2, refused.stderr
    assert "node n4: /proc/sys/net/core/somaxconn" in refused.stderr and "node n3" not in refused.stderr
    assert differences(before, snapshot(waiting, SYSCTLS)) == []

    waiting.ssh(f"sysctl -qw net.core.somaxconn={old}")
    ran = site.pdctl("runs", "resume", run, "-o", "json")
    assert ran.code == 0, f"{ran.stdout}\n{ran.stderr}"
    assert ran.document["run"]["id"] == run
    for host in ran.document["hosts"]:
        planned = {(change["role"], change["task"]) for change in plan["hosts"][host["name"]]["changes"]}
        # What was just being done when the controller died is done, and nobody heard of it.
        assert {(change["role"], change["task"]) for change in host["changes"]} <= planned
        assert (host["status"] in ("ok", "changed"), host["problems"]) == (True, [])
        assert site.lab.nodes[host["name"]].ssh("cat /etc/sysctl.d/90-pdctl.conf").count("tcp_rmem") == 1
