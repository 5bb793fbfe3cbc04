"""The MTU of rails that different programs configure; and a change of it that cuts the node off, which the node undoes by itself."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from tests.lab.commands import run
from tests.lab.nodes import Lab, Node, wait_until
from tests.lab.site import Ran, Site, differences, policy, snapshot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

BEFORE, LOWER, BETWEEN, WANTED = 1500, 4200, 8000, 9000
# eth0, over which SSH comes, is configured by nobody, rail0 by systemd-networkd, rail1 by ifupdown.
RAILS = ("eth0", "rail0", "rail1")
RULE = "/etc/udev/rules.d/90-pdctl-mtu.rules"
DROP_IN = "/etc/systemd/network/10-rail.network.d/90-pdctl-mtu.conf"
STANZAS = "# of the site\nauto rail1\niface rail1 inet static\n    address 10.99.0.2/24\n    mtu 1500\n\n# behind it\n"
# Long enough to be armed, and to be seen armed on a loaded machine.
SHORT_S, WINDOW_S = 12, 25
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
    (node,) = lab.up(["n1"], _with_rails)
    node.ssh("ip link add rail0 type veth peer name rail1 && ip link set rail1 up && systemctl start systemd-networkd")
    node.ssh("timeout 60 sh -c 'until networkctl list rail0 | grep -q configured; do sleep 0.2; done'", timeout_s=90)
    site = Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1"]})
    _allow(site, SHORT_S)
    # Both ends then speak in packets that the switch drops; a link that cuts up what it is given would hide that.
    lab.run("ip", "link", "set", "eth0", "mtu", str(WANTED))
    lab.switch_port("ctl", WANTED)
    for namespace in (lab.controller, node.namespace):
        run("ip", "-n", namespace, "link", "set", "eth0", "gso_max_segs", "1")
    former = _look(node)
    check = site.provision(site.ini(), "--tags", "mtu", "--check", "--diff", "-o", "json")
    after_check = _look(node)
    cut = site.provision(site.ini(), "--tags", "mtu", "-o", "json")
    after_cut = _look(node)
    lab.switch_port("n1", WANTED)
    _allow(site, 120)
    first = site.provision(site.ini(), "--tags", "mtu", "-o", "json")
    second = site.provision(site.ini(), "--tags", "mtu", "-o", "json")
    return Story(site, node, former, check, after_check, cut, after_cut, first, second)


def _with_rails(root: Path) -> None:
    unit = "[Match]\nName=rail0\n[Network]\nAddress=10.99.0.1/24\nLinkLocalAddressing=no\n"
    (root / "etc/systemd/network/10-rail.network").write_text(unit, encoding="utf-8")
    (root / "etc/network").mkdir(exist_ok=True)
    (root / "etc/network/interfaces").write_text(STANZAS, encoding="utf-8")


def _allow(site: Site, window_s: int, mtu: int = WANTED) -> None:
    fabric = {"rails": list(RAILS), "mtu": {"netdev": mtu}}
    site.write_policy({**policy(), "fabric": fabric, "confirm": {"window_s": window_s}})


def _mtus(node: Node) -> list[int]:
    """Of the rails, seen from this machine."""
    links = json.loads(run("ip", "-n", node.namespace, "-j", "link", "show"))
    mtu_of = {link["ifname"]: int(link["mtu"]) for link in links}
    return [mtu_of[name] for name in RAILS]


def _look(node: Node) -> str:
    return f"{snapshot(node, ())}\nmtus {_mtus(node)}"


def test_the_check_changes_nothing_and_says_what_the_run_then_changes(story: Story) -> None:
    assert differences(story.former, story.after_check) == []
    changed = [
        [(change["role"], change["task"]) for change in ran.host("n1")["changes"]] for ran in (story.check, story.run)
    ]
    assert changed[0] == changed[1] != []
    shown = str(story.check.host("n1")["changes"])
    for part in (*(f"mtu {name} = {WANTED}" for name in RAILS), RULE, DROP_IN, "/etc/network/interfaces"):
        assert part in shown


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
    assert _mtus(story.node) == [WANTED] * 3
    assert f'KERNEL=="eth0", ATTR{{mtu}}="{WANTED}"' in story.node.ssh(f"cat {RULE}")
    assert f"MTUBytes={WANTED}" in story.node.ssh(f"cat {DROP_IN}")
    assert story.node.ssh("cat /etc/network/interfaces") == STANZAS.replace("mtu 1500", f"mtu {WANTED}")


def test_systemd_networkd_reads_what_was_recorded_and_keeps_the_address(story: Story) -> None:
    story.node.ssh("ip link set rail0 mtu 1400 && networkctl reload && networkctl reconfigure rail0")
    wait_until(lambda: _mtus(story.node)[1] == WANTED, 60.0, "systemd-networkd sets the recorded MTU")
    story.node.ssh(
        "timeout 60 sh -c 'until ip -4 addr show rail0 | grep -q 10.99.0.1; do sleep 0.2; done'", timeout_s=90
    )


def test_the_second_run_changes_nothing(story: Story) -> None:
    assert story.second.code == 0, story.second.stderr
    assert (story.second.host("n1")["status"], story.second.host("n1")["changed"]) == ("ok", 0)


def test_nothing_is_left_armed(story: Story) -> None:
    assert story.node.ssh(ARMED).strip() == ""


def test_a_rollback_restores_the_live_mtu_and_the_files(story: Story) -> None:
    rolled = story.site.pdctl("runs", "rollback", story.run.document["run"]["id"], "-o", "json")
    assert rolled.code == 0, rolled.stderr
    assert differences(story.former, _look(story.node)) == []


def test_the_node_goes_back_when_the_controller_dies_and_the_next_run_says_so(story: Story) -> None:
    lab, node = story.site.lab, story.node
    lab.switch_port("n1", BEFORE)
    # The next run must come to the node while the timer is armed, on a loaded machine too.
    _allow(story.site, WINDOW_S + int(story.second.document["run"]["duration_s"]))
    process = story.site.start(story.site.ini(), "--tags", "mtu")
    try:
        # Seen from this machine: a login on the node would hang by now.
        changes = node.root / "var/lib/pdctl/changes"
        wait_until(lambda: bool(list(changes.glob("*/made"))), 120.0, "the change is made")
    finally:
        process.kill()
        process.wait(timeout=30)
        _end_ansible(lab)
    # The next run finds the timer armed, and waits for it.
    lab.switch_port("n1", WANTED)
    _allow(story.site, 120)
    again = story.site.provision(story.site.ini(), "--tags", "mtu", "--diff", "-o", "json")
    assert again.code == 0, again.stderr
    host = again.host("n1")
    assert host["status"] == "changed"
    assert f"mtu eth0 = {BEFORE}" in str(host["changes"])
    assert ["undid it by itself" in notice["message"] for notice in host["notices"] if notice["role"] == "confirm"] == [
        True
    ]
    assert _mtus(node) == [WANTED] * 3
    assert node.ssh(ARMED).strip() == ""


def _end_ansible(lab: Lab) -> None:
    """What the killed controller left running: its workers, and their clients of SSH."""
    for pid in lab.pids(lab.controller):
        subprocess.run(["kill", f"-{signal.SIGKILL}", str(pid)], check=False, capture_output=True, timeout=10)


def test_a_rollback_that_cuts_the_node_off_is_undone_by_the_node_and_says_so(story: Story) -> None:
    site, node = story.site, story.node
    _allow(site, 120, LOWER)
    lowered = site.provision(site.ini(), "--tags", "mtu", "-o", "json")
    assert (lowered.code, _mtus(node)) == (0, [LOWER] * 3), lowered.stderr
    run, before = lowered.document["run"]["id"], _look(node)
    # The fabric no longer carries the MTU that the node had.
    site.lab.switch_port("n1", LOWER)
    _allow(site, SHORT_S)
    listed = site.pdctl("runs", "rollback", run, "--check", "--diff", "-o", "json")
    assert listed.code == 0, listed.stderr
    sides = {part["before_header"]: part for each in listed.host("n1")["changes"] for part in each["diff"]}
    assert (sides["mtu eth0"]["before"], sides["mtu eth0"]["after"]) == (f"{LOWER}\n", f"{WANTED}\n")
    assert differences(before, _look(node)) == []
    cut = site.pdctl("runs", "rollback", run, "-o", "json")
    assert cut.code == 4, cut.stderr
    host = cut.host("n1")
    assert (host["status"], host["changed"]) == ("reverted", 0)
    (problem,) = host["problems"]
    assert (problem["outcome"], problem["role"], problem["key"]) == ("reverted", "backup", "rollback")
    assert differences(before, _look(node)) == []
    assert node.ssh(ARMED).strip() == ""
    site.lab.switch_port("n1", WANTED)
    _allow(site, 120)
    back = site.pdctl("runs", "rollback", run, "-o", "json")
    assert (back.code, _mtus(node)) == (0, [WANTED] * 3), back.stderr


def _armed(changes: Path) -> bool:
    return bool(list(changes.glob("*/about.json")))


def _made(changes: Path) -> bool:
    return bool(list(changes.glob("*/made")))


def _over(changes: Path) -> bool:
    return not _armed(changes)


@pytest.mark.parametrize("steps", [(_armed,), (_made,), (_made, _over)], ids=["armed", "made", "confirmed"])
def test_a_run_that_is_killed_at_any_step_of_such_a_change_goes_on(
    soak: None, story: Story, steps: Sequence[Callable[[Path], bool]]
) -> None:
    site, node = story.site, story.node
    before, changes = _look(node), node.root / "var/lib/pdctl/changes"
    _allow(site, WINDOW_S, BETWEEN)
    process = site.start(site.ini(), "--tags", "mtu")
    try:
        for step in steps:
            wait_until(partial(step, changes), 120.0, f"the change is {step.__name__}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    run = site.newest_run()
    assert run is not None

    ran = site.pdctl("runs", "resume", run, "-o", "json")
    assert ran.code == 0, f"{ran.stdout}\n{ran.stderr}"
    assert _mtus(node) == [BETWEEN] * 3
    assert node.ssh(ARMED).strip() == ""
    again = site.provision(site.ini(), "--tags", "mtu", "-o", "json")
    assert (again.code, again.host("n1")["status"]) == (0, "ok"), again.stderr
    rolled = site.pdctl("runs", "rollback", run, "-o", "json")
    assert rolled.code == 0, rolled.stderr
    assert differences(before, _look(node)) == []


def test_without_systemd_run_the_change_is_refused_by_name_before_it_is_made(story: Story) -> None:
    story.node.ssh("ip link set dev eth0 mtu 1500; mv /usr/bin/systemd-run /usr/bin/systemd-run.away")
    try:
        refused = story.site.provision(story.site.ini(), "--tags", "mtu", "-o", "json")
    finally:
        story.node.ssh("mv /usr/bin/systemd-run.away /usr/bin/systemd-run")
    assert refused.code == 4, refused.stderr
    assert "systemd-run is not there" in str(refused.host("n1")["problems"])
    assert _mtus(story.node) == [BEFORE, WANTED, WANTED]
