"""A run whose controller is killed, or that loses its nodes, goes on where it was; its rollback leads back to before it all.

PDCTL_KILLS: at how many random points the controller is killed; PDCTL_DROPS: at how many while two nodes are lost, too. The
points are shares of the events that a whole run has.
"""

import json
import os
import random
import signal
import subprocess
from collections.abc import Mapping

import pytest
from tests.lab.connections import end_ssh_sessions, link_down
from tests.lab.nodes import Lab, wait_until
from tests.lab.site import PDCTL, RUN_DEADLINE_S, Ran, Site, differences, snapshot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(14400)]

NODES = ("n1", "n2", "n3", "n4")
SYSCTLS = ("net.ipv4.tcp_rmem", "net.core.somaxconn")
KILLS = int(os.environ.get("PDCTL_KILLS", "1"))
DROPS = int(os.environ.get("PDCTL_DROPS", "3"))
# All that leave files or live values in a node of the lab.
ROLES = ("--tags", "locale,safe_yum,sysctl,limits")
# Of a whole run of these on four nodes; about 230 of them come before the first role that changes a node.
EVENTS = 860
_RANDOM = random.Random(5)
POINTS = [round(_RANDOM.uniform(0.0, 1.0), 3) for _ in range(KILLS)]
# When two nodes are lost, and how many events later the controller is: a node whose link is down is given up after half a minute.
LOSSES = [(round(_RANDOM.uniform(0.1, 0.9), 3), _RANDOM.choice((0, 1, 20))) for _ in range(DROPS)]


# What a writer leaves beside its target when it does not come to the rename, and what holds a node.
_LEFT = r"""
find /etc /usr/local /usr/lib/locale /var/lib/pdctl -name '.ansible_tmp*' -o -name '.pdctl-*'
ls /var/lib/pdctl
"""


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    lab.up(NODES)
    return Site(lab, tmp_path_factory.mktemp("site"), {"prefill": NODES[:2], "decode": NODES[2:]})


@pytest.fixture(scope="module")
def bare(site: Site) -> Mapping[str, str]:
    return _look(site)


@pytest.fixture(scope="module")
def fit() -> dict[str, str]:
    """What a run left that was proven to have converged; filled by the first one."""
    return {}


def _look(site: Site) -> dict[str, str]:
    return {name: snapshot(node, SYSCTLS) for name, node in site.lab.nodes.items()}


def _events(site: Site, run: str) -> int:
    path = site.runs / run / "events.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _until(site: Site, process: "subprocess.Popen[str]", before: str | None, events: int) -> str:
    """The new run's id, once so many of its events are written or it has ended."""

    def written() -> bool:
        run = site.newest_run()
        enough = run is not None and run != before and _events(site, run) >= events
        return enough or process.poll() is not None

    wait_until(written, RUN_DEADLINE_S, f"{events} events of a run")
    run = site.newest_run()
    assert run is not None and run != before
    return run


def _kill(site: Site, events: int) -> str:
    before = site.newest_run()
    process = site.start(site.ini(), *ROLES, "-o", "json")
    run = _until(site, process, before, events)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    return run


def _resumed(site: Site, run: str) -> Ran:
    ran = site.pdctl("runs", "resume", run, "-o", "json")
    assert ran.code == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran


def _converged(site: Site, fit: dict[str, str]) -> None:
    """The first time a second run finds nothing to change; from then on each byte and value is as that left it."""
    if fit:
        now = _look(site)
        assert {name: differences(fit[name], now[name]) for name in NODES} == {name: [] for name in NODES}
        return
    again = site.provision(site.ini(), *ROLES, "-o", "json")
    assert again.code == 0, again.stderr
    assert [(host["status"], host["changed"]) for host in again.document["hosts"]] == [("ok", 0)] * len(NODES)
    fit.update(_look(site))


def _rolled_back(site: Site, run: str, bare: Mapping[str, str]) -> None:
    back = site.pdctl("runs", "rollback", run, "-o", "json")
    assert back.code == 0, f"{back.stdout}\n{back.stderr}"
    now = _look(site)
    assert {name: differences(bare[name], now[name]) for name in NODES} == {name: [] for name in NODES}


@pytest.mark.parametrize("point", POINTS)
def test_a_run_whose_controller_is_killed_goes_on_and_leads_back_to_before_its_first_try(
    site: Site, bare: Mapping[str, str], fit: dict[str, str], point: float
) -> None:
    run = _kill(site, int(point * EVENTS))
    if point == POINTS[0]:
        _refused_over_a_changed_policy(site, run)
    resumed = _resumed(site, run)
    if resumed.document is not None:
        assert resumed.document["run"]["id"] == run
        assert {host["status"] for host in resumed.document["hosts"]} <= {"ok", "changed"}
    _whole_and_free(site)
    if len(POINTS) > 1:
        _converged(site, fit)
    _rolled_back(site, run, bare)


@pytest.mark.parametrize(("point", "later"), LOSSES)
def test_a_run_whose_controller_is_killed_while_nodes_are_lost_goes_on_all_the_same(
    soak: None, site: Site, bare: Mapping[str, str], fit: dict[str, str], point: float, later: int
) -> None:
    before = site.newest_run()
    process = site.start(site.ini(), *ROLES, "-o", "json")
    run = _until(site, process, before, int(point * EVENTS))
    end_ssh_sessions(site.lab.nodes["n2"])
    with link_down(site.lab.nodes["n3"]):
        _until(site, process, before, _events(site, run) + later)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)

    resumed = _resumed(site, run)
    assert {host["status"] for host in resumed.document["hosts"]} <= {"ok", "changed"}
    _whole_and_free(site)
    _converged(site, fit)
    _rolled_back(site, run, bare)


def test_nodes_lost_while_it_goes_on_are_told_and_the_next_resume_does_only_what_they_miss(
    soak: None, site: Site, bare: Mapping[str, str], fit: dict[str, str]
) -> None:
    run = _kill(site, EVENTS // 3)
    begun = _events(site, run)
    process = site.lab.start(str(PDCTL), "runs", "resume", run, "--timeout", "5", "-o", "json")
    wait_until(lambda: _events(site, run) >= begun + EVENTS // 2, RUN_DEADLINE_S, "events of the resumed run")
    end_ssh_sessions(site.lab.nodes["n2"])
    with link_down(site.lab.nodes["n3"]):
        said, complained = process.communicate(timeout=RUN_DEADLINE_S)
    assert process.returncode in (3, 4), complained
    shown = {host["name"]: host["status"] for host in json.loads(said)["hosts"]}
    assert shown["n3"] == "unreachable"
    assert {shown["n1"], shown["n4"]} == {"changed"}

    resumed = _resumed(site, run)
    assert {host["status"] for host in resumed.document["hosts"]} == {"changed"}
    assert {line.split()[2] for line in resumed.stderr.splitlines() if " s  n" in line} <= {"n2", "n3"}
    _whole_and_free(site)
    _converged(site, fit)
    _rolled_back(site, run, bare)


def _whole_and_free(site: Site) -> None:
    """Nothing is half written, and no lock is held."""
    for node in site.lab.nodes.values():
        assert node.ssh(_LEFT) == "converged.json\nruns\n"


def _refused_over_a_changed_policy(site: Site, run: str) -> None:
    policy = (site.folder / "policy.yml").read_text(encoding="utf-8")
    site.write_policy({"sysctl": {"net.core.somaxconn": 128}})
    refused = site.pdctl("runs", "resume", run)
    (site.folder / "policy.yml").write_text(policy, encoding="utf-8")
    assert refused.code == 2
    assert "policy: policy.yml beside the inventory" in refused.stderr
