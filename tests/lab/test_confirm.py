"""A change that cuts a node off: the node undoes it by itself, the run says so, and nothing of it is left."""

import json
import signal
import subprocess
from dataclasses import dataclass

import pytest
from tests.lab.commands import run
from tests.lab.nodes import Lab, Node, wait_until
from tests.lab.site import Ran, Site, differences, policy, snapshot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

BEFORE, WANTED = 1500, 9000
RECORD = "/etc/udev/rules.d/90-pdctl-mtu.rules"
# Long enough to be armed, and to be seen armed on a loaded machine.
SHORT_S, WINDOW_S = 12, 25
UNDONE_DEADLINE_S = 180.0
ARMED = "systemctl list-units --all --no-legend 'pdctl-revert-*' 'pdctl-apply-*'; ls /var/lib/pdctl/changes 2>/dev/null; true"


@dataclass(frozen=True)
class Story:
    """One node whose rail is the interface that SSH uses. cut: its switch port does not carry the policy's MTU."""

    site: Site
    node: Node
    former: str
    check: Ran
    after_check: str
    cut: Ran
    after_cut: str
    run: Ran
    second: Ran


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Story:
    (node,) = lab.up(["n1"])
    site = Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1"]})
    _allow(site, SHORT_S)
    # Both ends then speak in packets that the switch drops; a link that cuts up what it is given would hide that.
    lab.run("ip", "link", "set", "eth0", "mtu", str(WANTED))
    lab.switch_port("ctl", WANTED)
    for namespace in (lab.controller, node.namespace):
        run("ip", "-n", namespace, "link", "set", "eth0", "gso_max_segs", "1")
    former = snapshot(node, ())
    check = site.provision(site.ini(), "--tags", "mtu", "--check", "--diff", "-o", "json")
    after_check = snapshot(node, ())
    cut = site.provision(site.ini(), "--tags", "mtu", "-o", "json")
    after_cut = snapshot(node, ())
    lab.switch_port("n1", WANTED)
    _allow(site, 120)
    first = site.provision(site.ini(), "--tags", "mtu", "-o", "json")
    second = site.provision(site.ini(), "--tags", "mtu", "-o", "json")
    return Story(site, node, former, check, after_check, cut, after_cut, first, second)


def _allow(site: Site, window_s: int) -> None:
    fabric = {"rails": ["eth0"], "mtu": {"netdev": WANTED}}
    site.write_policy({**policy(), "fabric": fabric, "confirm": {"window_s": window_s}})


def _mtu(node: Node) -> int:
    """Seen from this machine."""
    (link,) = json.loads(run("ip", "-n", node.namespace, "-j", "link", "show", "dev", "eth0"))
    return int(link["mtu"])


def test_the_check_changes_nothing_and_says_what_the_run_then_changes(story: Story) -> None:
    assert differences(story.former, story.after_check) == []
    changed = [
        [(change["role"], change["task"]) for change in ran.host("n1")["changes"]] for ran in (story.check, story.run)
    ]
    assert changed[0] == changed[1] != []
    shown = str(story.check.host("n1")["changes"])
    assert f"mtu eth0 = {WANTED}" in shown
    assert RECORD in shown


def test_a_node_that_the_change_cuts_off_goes_back_by_itself_and_the_run_says_so_with_exit_code_4(story: Story) -> None:
    assert story.cut.code == 4, story.cut.stderr
    host = story.cut.host("n1")
    assert (host["status"], host["changed"]) == ("reverted", 0)
    (problem,) = host["problems"]
    assert (problem["outcome"], problem["role"]) == ("reverted", "mtu")
    assert "could not be reached after the change" in problem["message"]
    assert differences(story.former, story.after_cut) == []


def test_a_change_that_is_confirmed_stays_live_and_recorded(story: Story) -> None:
    assert story.run.code == 0, story.run.stderr
    assert story.run.host("n1")["status"] == "changed"
    assert f'KERNEL=="eth0", ATTR{{mtu}}="{WANTED}"' in story.node.ssh(f"cat {RECORD}")


def test_the_second_run_changes_nothing(story: Story) -> None:
    assert story.second.code == 0, story.second.stderr
    assert (story.second.host("n1")["status"], story.second.host("n1")["changed"]) == ("ok", 0)


def test_nothing_is_left_armed(story: Story) -> None:
    assert story.node.ssh(ARMED).strip() == ""


def test_a_rollback_restores_the_live_mtu_and_the_files(story: Story) -> None:
    rolled = story.site.pdctl("runs", "rollback", story.run.document["run"]["id"], "-o", "json")
    assert rolled.code == 0, rolled.stderr
    assert _mtu(story.node) == BEFORE
    assert differences(story.former, snapshot(story.node, ())) == []


def test_the_node_goes_back_when_the_controller_dies_and_the_next_run_says_so(story: Story) -> None:
    lab, node = story.site.lab, story.node
    lab.switch_port("n1", BEFORE)
    _allow(story.site, WINDOW_S)
    process = story.site.start(story.site.ini(), "--tags", "mtu")
    try:
        # Seen from this machine: a login on the node would hang by now.
        changes = node.root / "var/lib/pdctl/changes"
        wait_until(lambda: bool(list(changes.glob("*/made"))), 120.0, "the change is made")
    finally:
        process.kill()
        process.wait(timeout=30)
        _end_ansible(lab)
    wait_until(lambda: _mtu(node) == BEFORE, UNDONE_DEADLINE_S, "the node goes back")
    lab.switch_port("n1", WANTED)
    _allow(story.site, 120)
    again = story.site.provision(story.site.ini(), "--tags", "mtu", "-o", "json")
    assert again.code == 0, again.stderr
    host = again.host("n1")
    assert host["status"] == "changed"
    assert ["undid it by itself" in notice["message"] for notice in host["notices"] if notice["role"] == "confirm"] == [
        True
    ]
    assert _mtu(node) == WANTED
    assert node.ssh(ARMED).strip() == ""


def _end_ansible(lab: Lab) -> None:
    """What the killed controller left running: its workers, and their clients of SSH."""
    for pid in lab.pids(lab.controller):
        subprocess.run(["kill", f"-{signal.SIGKILL}", str(pid)], check=False, capture_output=True, timeout=10)


def test_without_systemd_run_the_change_is_refused_by_name_before_it_is_made(story: Story) -> None:
    story.node.ssh("ip link set dev eth0 mtu 1500; mv /usr/bin/systemd-run /usr/bin/systemd-run.away")
    try:
        refused = story.site.provision(story.site.ini(), "--tags", "mtu", "-o", "json")
    finally:
        story.node.ssh("mv /usr/bin/systemd-run.away /usr/bin/systemd-run")
    assert refused.code == 4, refused.stderr
    assert "systemd-run is not there" in str(refused.host("n1")["problems"])
    assert _mtu(story.node) == BEFORE
