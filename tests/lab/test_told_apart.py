"""One run over nodes that end in every way: changed, refused, unfit, unreachable; and one that is interrupted."""

import json
import re
import signal
from pathlib import Path

import pexpect
import pytest
from tests.lab.logins import PASSWORD, login_that_is_not_root
from tests.lab.nodes import Lab, wait_until
from tests.lab.site import PDCTL, RUN_DEADLINE_S, Ran, Site, policy

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

GHOST = "10.77.9.9"
NO_BREAK_SPACE = "[café]\nname=x\nbaseurl=https://example.org/\u00a0el9\n"
# Kept in ticks of the kernel's clock: no kernel has a thousandth of a second in one.
CLAMPED = "net.ipv4.neigh.eth0.base_reachable_time_ms"
REFUSED = "net.core.rmem_max"
ABSENT = "net.ipv4.neigh.default.gc_thresh3"
OVERRIDDEN = "net.core.somaxconn"
HOPELESS = {
    "locale": {"candidates": ["xx_YY.UTF-8"]},
    "limits": {"nofile": 2**31},
    "services": {"rdma": {"Debian": {"packages": ["rdma-core", "no-such-package"], "units": ["no-such.service"]}}},
}


def _broken_python(root: Path) -> None:
    for path in (root / "usr/bin").glob("python3*"):
        path.unlink()
        path.write_text("#!/bin/sh\necho 'python3: cannot open shared object file' >&2\nexit 127\n")
        path.chmod(0o755)


def _drop_in_of_the_site(root: Path) -> None:
    (root / "etc/sysctl.d/99-site.conf").write_text(f"# it comes after pdctl's\n{OVERRIDDEN} = 128\n")


def _without_sudo(root: Path) -> None:
    login_that_is_not_root(root)
    (root / "usr/bin/sudo").unlink()


def _strange_repository(root: Path) -> None:
    folder = root / "etc/yum.repos.d"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "site.repo").write_text(NO_BREAK_SPACE, encoding="utf-8")


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    lab.up(["good"], _strange_repository)
    lab.up(["stubborn"], _drop_in_of_the_site)
    lab.up(["hopeless"])
    lab.up(["nopython"], _broken_python)
    lab.up(["noroot"], _without_sudo)
    lab.up(["sudoer"], login_that_is_not_root)
    pools = {"prefill": ["good", "stubborn", "hopeless"], "decode": ["nopython", "noroot", "sudoer"]}
    return Site(lab, tmp_path_factory.mktemp("site"), pools)


@pytest.fixture(scope="module")
def inventory(site: Site) -> Path:
    asked = json.dumps({"sysctl": {REFUSED: 8388608, ABSENT: 8192, CLAMPED: 1}})
    variables = {
        "stubborn": f"pdctl_policy='{asked}'",
        "hopeless": f"pdctl_policy='{json.dumps(HOPELESS)}'",
        "noroot": "ansible_user=ops",
        "sudoer": "ansible_user=ops",
    }
    return site.ini(variables, hosts={"ghost": f"ansible_host={GHOST}"})


@pytest.fixture(scope="module")
def ran(site: Site, inventory: Path) -> Ran:
    return site.provision(inventory, "-o", "json", "--timeout", "4")


def test_each_host_has_its_own_ending(ran: Ran) -> None:
    assert {host["name"]: host["status"] for host in ran.document["hosts"]} == {
        "ghost": "unreachable",
        "good": "changed",
        "stubborn": "partly",
        "hopeless": "partly",
        "nopython": "unfit",
        "noroot": "unfit",
        "sudoer": "unfit",
    }
    assert ran.document["summary"] == {
        "ok": 0, "changed": 1, "partly": 2, "failed": 0, "unfit": 3, "unreachable": 1, "incomplete": 0, "untouched": 0,
        "reverted": 0,
    }  # fmt: skip


def test_a_refused_setting_outweighs_nodes_that_were_not_touched_or_not_reached(ran: Ran) -> None:
    assert (ran.code, ran.document["exit_code"]) == (4, 4)


def test_each_setting_that_does_not_hold_says_how_and_the_rest_is_done(ran: Ran, site: Site) -> None:
    problems = {problem["key"]: problem for problem in ran.host("stubborn")["problems"]}
    assert {key: problem["outcome"] for key, problem in problems.items()} == {
        REFUSED: "refused",
        ABSENT: "absent",
        CLAMPED: "clamped",
        OVERRIDDEN: "overridden",
    }
    assert {problem["role"] for problem in problems.values()} == {"sysctl"}
    assert site.lab.nodes["stubborn"].ssh("cat /etc/security/limits.d/90-pdctl.conf").count("nofile") == 2


def test_a_refused_kernel_parameter_has_its_errno(ran: Ran) -> None:
    problems = {problem["key"]: problem for problem in ran.host("stubborn")["problems"]}
    # procps prints `Invalid argument` and exits 0; this is what the kernel says to open(2).
    assert (problems[REFUSED]["errno_name"], problems[REFUSED]["wanted"]) == ("EACCES", "8388608")
    assert problems[ABSENT]["errno_name"] == "ENOENT"


def test_a_locale_a_package_a_unit_or_a_limit_that_cannot_be_had_is_said_after_the_rest_is_done(
    ran: Ran, site: Site
) -> None:
    problems = {(problem["role"], problem["key"]): problem for problem in ran.host("hopeless")["problems"]}
    assert set(problems) == {
        ("locale", "locale"),
        ("safe_yum", "/usr/local/sbin/safe_yum"),
        ("limits", "nofile"),
        ("rdma", "packages"),
        ("rdma", "no-such.service"),
    }
    assert "xx_YY.UTF-8" in problems["locale", "locale"]["wanted"]
    assert "no-such-package" in problems["rdma", "packages"]["message"]
    assert "fs.nr_open" in problems["limits", "nofile"]["message"]
    node = site.lab.nodes["hopeless"]
    assert node.ssh("ls /etc/security/limits.d").strip() == ""
    assert "tcp_rmem" in node.ssh("cat /etc/sysctl.d/90-pdctl.conf")


def test_the_doctor_never_passes_what_the_node_refused(ran: Ran, site: Site, inventory: Path) -> None:
    found = site.doctor(inventory, "--limit", "stubborn", "--select", "PD-SYSCTL")
    assert found["PD-SYSCTL-001", "stubborn", REFUSED] not in ("pass", "info")


def test_a_clamped_value_shows_what_the_kernel_made_of_it(ran: Ran, site: Site) -> None:
    (clamped,) = (problem for problem in ran.host("stubborn")["problems"] if problem["key"] == CLAMPED)
    live = site.lab.nodes["stubborn"].ssh(f"sysctl -n {CLAMPED}").strip()
    assert (clamped["wanted"], clamped["live"]) == ("1", live)
    assert live != "1"


def test_a_drop_in_that_wins_at_boot_is_named_by_its_line(ran: Ran) -> None:
    (overridden,) = (problem for problem in ran.host("stubborn")["problems"] if problem["key"] == OVERRIDDEN)
    assert overridden["message"].startswith("/etc/sysctl.d/99-site.conf:2 sets 128 at boot")


def test_an_unreachable_host_says_what_ssh_said(ran: Ran) -> None:
    assert GHOST in ran.host("ghost")["unreachable"]


def test_a_broken_python_is_named_before_anything_is_touched(ran: Ran) -> None:
    host = ran.host("nopython")
    assert (host["failure"]["role"], host["touched"]) == ("preflight", False)
    assert "cannot open shared object file" in host["failure"]["message"]
    assert host["changes"] == []


def test_a_login_without_root_is_told_to_become(ran: Ran) -> None:
    host = ran.host("noroot")
    assert "not root" in host["failure"]["message"] and "--become" in host["failure"]["message"]
    assert host["changes"] == []


def test_a_node_without_sudo_is_named(site: Site, inventory: Path) -> None:
    ran = site.provision(inventory, "--become", "--limit", "noroot", "-o", "json")
    assert ran.code == 3
    assert "sudo" in ran.host("noroot")["failure"]["message"]


def test_a_sudo_password_is_asked_for_once_and_kept_nowhere(site: Site, inventory: Path) -> None:
    command = site.lab.command(str(PDCTL), "provision", str(inventory), "-K", "--limit", "sudoer")
    terminal = pexpect.spawn(command[0], command[1:], encoding="utf-8", timeout=20, dimensions=(40, 200))
    terminal.expect("BECOME password: ")
    terminal.sendline(PASSWORD)
    terminal.expect(r"record (/\S+)", timeout=RUN_DEADLINE_S)
    assert isinstance(terminal.match, re.Match)
    folder = Path(terminal.match.group(1))
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
    assert json.loads((folder / "hosts/sudoer.json").read_text(encoding="utf-8"))["status"] == "changed"
    kept = [path for path in folder.rglob("*") if path.is_file() and PASSWORD in path.read_text(encoding="utf-8")]
    assert kept == []


def test_a_non_ascii_byte_in_a_repository_file_is_named_by_line_and_column(ran: Ran) -> None:
    notices = [notice for notice in ran.host("good")["notices"] if notice["role"] == "safe_yum"]
    assert [(n["key"], n["message"]) for n in notices] == [
        ("/etc/yum.repos.d/site.repo:1:5", "non-ASCII 0xc3 0xa9 (LATIN SMALL LETTER E WITH ACUTE)"),
        ("/etc/yum.repos.d/site.repo:3:29", "non-ASCII 0xc2 0xa0 (NO-BREAK SPACE)"),
    ]


def test_the_table_tells_them_apart_too(site: Site, inventory: Path) -> None:
    ran = site.provision(inventory, "--limit", "ghost,nopython", "--timeout", "4")
    rows = {line.split()[0]: line.split()[2] for line in ran.stdout.splitlines()[1:3]}
    assert rows == {"ghost": "unreachable", "nopython": "unfit"}
    assert "unfit, and not touched: no Python works on this node" in ran.stdout
    assert ran.code == 3


def test_unreachable_alone_is_incomplete(site: Site, inventory: Path) -> None:
    ran = site.provision(inventory, "--limit", "ghost", "--timeout", "4", "-o", "json")
    assert (ran.code, ran.host("ghost")["status"]) == (3, "unreachable")


def test_an_unknown_host_key_makes_the_node_unreachable_and_asks_nothing(site: Site, inventory: Path) -> None:
    known = site.lab.known_hosts.read_text(encoding="utf-8")
    site.lab.known_hosts.write_text("", encoding="utf-8")
    try:
        ran = site.provision(inventory, "--limit", "good", "-o", "json")
    finally:
        site.lab.known_hosts.write_text(known, encoding="utf-8")
    assert ran.code == 3
    assert "Host key verification failed" in ran.host("good")["unreachable"]


def test_a_key_that_the_policy_does_not_know_is_refused_by_name(site: Site, inventory: Path) -> None:
    site.write_policy({"sysclt": {OVERRIDDEN: 1}})
    try:
        ran = site.provision(inventory, "--limit", "good", "-o", "json")
    finally:
        site.write_policy(policy())
    assert (ran.code, ran.stdout) == (2, "")
    assert "the policy has no key `sysclt`" in ran.stderr and "did you mean `sysctl`?" in ran.stderr


def test_an_interrupt_ends_the_run_records_it_and_leaves_nothing(site: Site, inventory: Path) -> None:
    site.write_policy(policy() | {"limits": {"memlock": 64, "nofile": 900}})
    process = site.start(inventory, "--limit", "good", "-o", "json")
    assert process.stderr is not None and process.stdout is not None
    assert " good " in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    stdout, _stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    document = json.loads(stdout)
    assert (document["run"]["interrupted"], document["hosts"][0]["status"]) == (True, "incomplete")
    about = json.loads((Path(document["run"]["folder"]) / "run.json").read_text(encoding="utf-8"))
    assert (about["state"], about["exit_code"]) == ("ended", 130)
    controller = site.lab.controller
    wait_until(lambda: site.lab.pids(controller) == [], 10, "processes of the run left on the controller")
