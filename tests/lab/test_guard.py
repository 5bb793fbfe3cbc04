"""Other operators are kept off a node, changes off its engines; the doctor has the last word; a node that kept its state is let be."""

import json
import time

import pytest
from tests.lab.nodes import Lab
from tests.lab.site import Site, differences, snapshot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

SYSCTLS = ("net.ipv4.tcp_rmem", "net.core.somaxconn")
ROLES = ("--tags", "sysctl,limits", "-o", "json")
LIMITS = "/etc/security/limits.d/90-pdctl.conf"
ZHANG = {"run": "20260101T000000Z-00000a", "by": "zhang", "from": "laptop", "command": "provision"}
ENGINE = "pdctl-decode.service"
_START = f"""
printf '[Service]\\nExecStart=/bin/sleep infinity\\n' >/run/systemd/system/{ENGINE}
systemctl daemon-reload
systemctl start {ENGINE}
"""


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    held, serving = lab.up(["n1", "n2"])
    lock = json.dumps({**ZHANG, "since": int(time.time())})
    held.ssh(f"mkdir /var/lib/pdctl && echo '{lock}' >/var/lib/pdctl/lock.json")
    serving.ssh(_START)
    return Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1"], "decode": ["n2"]})


def test_a_node_of_another_operator_is_left_alone_and_an_active_engine_undisturbed(site: Site) -> None:
    held, serving = site.lab.nodes["n1"], site.lab.nodes["n2"]
    before = snapshot(held, SYSCTLS)
    planned = site.provision(site.ini(), "--check", *ROLES)
    ran = site.provision(site.ini(), *ROLES)
    assert (planned.code, ran.code) == (4, 4), f"{planned.stderr}\n{ran.stderr}"

    assert ran.host("n1")["status"] == "untouched"
    assert f"run {ZHANG['run']} (provision) of zhang on laptop, since " in ran.host("n1")["held_by"]
    assert differences(before, snapshot(held, SYSCTLS)) == []

    for each in (planned, ran):
        host = each.host("n2")
        assert (host["status"], host["engines"]) == ("partly", [ENGINE])
        assert LIMITS in {problem["key"] for problem in host["problems"]}
        assert {problem["role"] for problem in host["problems"]} == {"limits"}
        assert all(ENGINE in problem["message"] for problem in host["problems"])
        assert {change["role"] for change in host["changes"]} == {"sysctl"}
    assert serving.ssh(f"ls {LIMITS} 2>&1 || true").startswith("ls: ")
    assert "tcp_rmem" in serving.ssh("cat /etc/sysctl.d/90-pdctl.conf")
    assert serving.ssh("ls /var/lib/pdctl") == "runs\n"


def test_both_are_overruled_on_request_and_that_is_recorded(site: Site) -> None:
    ran = site.provision(site.ini(), "--break-lock", "--while-serving", *ROLES)
    assert ran.code == 0, ran.stderr
    (notice,) = (each for each in ran.host("n1")["notices"] if each["key"] == "lock")
    assert notice["message"].startswith(f"taken from run {ZHANG['run']} ") and "--break-lock" in notice["message"]
    about = json.loads((site.record(ran) / "run.json").read_text(encoding="utf-8"))
    assert (about["options"]["break_lock"], about["options"]["while_serving"]) == (True, True)
    assert site.lab.nodes["n2"].ssh(f"cat {LIMITS}").count("nofile") == 2
    for node in site.lab.nodes.values():
        assert node.ssh("ls /var/lib/pdctl") == "converged.json\nruns\n"


def test_only_a_node_that_drifted_is_run_on(site: Site) -> None:
    options = ("--drift", "--while-serving", *ROLES)
    kept = site.provision(site.ini(), *options)
    assert kept.code == 0, kept.stderr
    assert [(host["settled"], host["tasks"]) for host in kept.document["hosts"]] == [(True, 0), (True, 0)]

    site.lab.nodes["n1"].ssh("sysctl -qw net.core.somaxconn=77")
    mended = site.provision(site.ini(), *options)
    assert mended.code == 0, mended.stderr
    assert (mended.host("n1")["status"], mended.host("n1")["changed"]) == ("changed", 1)
    assert mended.host("n2")["settled"]
    assert site.lab.nodes["n1"].ssh("sysctl -n net.core.somaxconn").strip() != "77"


def test_a_check_that_fails_fails_the_host_and_it_has_not_converged(site: Site) -> None:
    # The lab's policy leaves this key alone, and the doctor has a floor for it.
    key = "net.ipv4.neigh.eth0.base_reachable_time_ms"
    site.lab.nodes["n2"].ssh(f"sysctl -qw {key}=1000")
    ran = site.provision(site.ini(), "--limit", "n2", "--while-serving", *ROLES)
    assert ran.code == 4, ran.stderr
    (problem,) = ran.host("n2")["problems"]
    assert (problem["role"], problem["key"], problem["outcome"]) == ("sysctl", f"PD-ARP-001 {key}", "unproven")
    assert site.lab.nodes["n2"].ssh("ls /var/lib/pdctl") == "runs\n"
