"""One run over nodes that end in every way: changed, refused, failed, unreachable; and one that is interrupted."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from tests.lab.nodes import Lab, wait_until
from tests.lab.site import Ran, Site, policy

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

GHOST = "10.77.9.9"
NO_BREAK_SPACE = "[café]\nname=x\nbaseurl=https://example.org/\u00a0el9\n"


def _broken_python(root: Path) -> None:
    (root / "usr/bin/python3").unlink()
    (root / "usr/bin/python3").write_text("#!/bin/sh\necho 'python3: cannot open shared object file' >&2\nexit 127\n")
    (root / "usr/bin/python3").chmod(0o755)


def _without_root(root: Path) -> None:
    """A login that is not root, on a node without sudo."""
    with (root / "etc/passwd").open("a", encoding="utf-8") as passwd:
        passwd.write("ops:x:1500:1500::/home/ops:/bin/sh\n")
    with (root / "etc/shadow").open("a", encoding="utf-8") as shadow:
        shadow.write("ops:*:20000:0:99999:7:::\n")
    keys = root / "home/ops/.ssh/authorized_keys"
    keys.parent.mkdir(parents=True)
    keys.write_text((root / "root/.ssh/authorized_keys").read_text())
    for path in (root / "home/ops", keys.parent, keys):
        path.chmod(0o700)
        subprocess.run(["chown", "1500:1500", str(path)], check=True)


def _strange_repository(root: Path) -> None:
    folder = root / "etc/yum.repos.d"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "site.repo").write_text(NO_BREAK_SPACE, encoding="utf-8")


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    lab.up(["good"], _strange_repository)
    lab.up(["stubborn"])
    lab.up(["nopython"], _broken_python)
    lab.up(["noroot"], _without_root)
    return Site(
        lab, tmp_path_factory.mktemp("site"), {"prefill": ["good", "stubborn"], "decode": ["nopython", "noroot"]}
    )


@pytest.fixture(scope="module")
def inventory(site: Site) -> Path:
    refused = {"sysctl": {"net.core.rmem_max": 8388608, "net.ipv4.neigh.default.gc_thresh3": 8192}}
    variables = {"stubborn": f"pdctl_policy='{json.dumps(refused)}'", "noroot": "ansible_user=ops"}
    return site.ini(variables, hosts={"ghost": f"ansible_host={GHOST}"})


@pytest.fixture(scope="module")
def ran(site: Site, inventory: Path) -> Ran:
    return site.provision(inventory, "-o", "json", "--timeout", "4")


def test_each_host_has_its_own_ending(ran: Ran) -> None:
    endings = {host["name"]: host["status"] for host in ran.document["hosts"]}
    assert endings == {
        "ghost": "unreachable",
        "good": "changed",
        "stubborn": "partly",
        "nopython": "failed",
        "noroot": "failed",
    }
    assert ran.document["summary"] == {
        "ok": 0, "changed": 1, "partly": 1, "failed": 2, "unreachable": 1, "incomplete": 0,
    }  # fmt: skip


def test_a_failed_host_outweighs_a_refusal_and_an_unreachable_one(ran: Ran) -> None:
    assert (ran.code, ran.document["exit_code"]) == (5, 5)


def test_a_refused_kernel_parameter_has_its_errno_and_the_rest_is_done(ran: Ran, site: Site) -> None:
    problems = {problem["key"]: problem for problem in ran.host("stubborn")["problems"]}
    refused = problems["net.core.rmem_max"]
    # procps prints `Invalid argument` and exits 0; the kernel's answer to open(2) is this.
    assert (refused["outcome"], refused["errno_name"]) == ("refused", "EACCES")
    assert (refused["wanted"], refused["role"]) == ("8388608", "sysctl")
    absent = problems["net.ipv4.neigh.default.gc_thresh3"]
    assert (absent["outcome"], absent["errno_name"]) == ("absent", "ENOENT")
    assert set(problems) == {"net.core.rmem_max", "net.ipv4.neigh.default.gc_thresh3"}
    assert site.lab.nodes["stubborn"].ssh("cat /etc/security/limits.d/90-pdctl.conf").count("nofile") == 2


def test_an_unreachable_host_says_what_ssh_said(ran: Ran) -> None:
    assert GHOST in ran.host("ghost")["unreachable"]


def test_a_broken_python_is_named_before_anything_is_touched(ran: Ran) -> None:
    host = ran.host("nopython")
    assert host["failure"]["role"] == "preflight"
    assert "cannot open shared object file" in host["failure"]["message"]
    assert host["changes"] == []


def test_a_login_without_root_is_told_to_become(ran: Ran) -> None:
    host = ran.host("noroot")
    assert "not root" in host["failure"]["message"] and "--become" in host["failure"]["message"]
    assert host["changes"] == []


def test_a_node_without_sudo_is_named(site: Site, inventory: Path) -> None:
    ran = site.provision(inventory, "--become", "--limit", "noroot", "-o", "json")
    assert ran.code == 5
    assert "sudo" in ran.host("noroot")["failure"]["message"]


def test_a_non_ascii_byte_in_a_repository_file_is_named_by_line_and_column(ran: Ran) -> None:
    notices = [notice for notice in ran.host("good")["notices"] if notice["role"] == "safe_yum"]
    assert [(n["key"], n["message"]) for n in notices] == [
        ("/etc/yum.repos.d/site.repo:1:5", "non-ASCII 0xc3 0xa9 (LATIN SMALL LETTER E WITH ACUTE)"),
        ("/etc/yum.repos.d/site.repo:3:29", "non-ASCII 0xc2 0xa0 (NO-BREAK SPACE)"),
    ]


def test_the_table_tells_them_apart_too(site: Site, inventory: Path) -> None:
    ran = site.provision(inventory, "--limit", "ghost,nopython", "--timeout", "4")
    rows = {line.split()[0]: line.split()[2] for line in ran.stdout.splitlines()[1:3]}
    assert rows == {"ghost": "unreachable", "nopython": "failed"}
    assert ran.code == 5


def test_unreachable_alone_is_incomplete(site: Site, inventory: Path) -> None:
    ran = site.provision(inventory, "--limit", "ghost", "--timeout", "4", "-o", "json")
    assert (ran.code, ran.host("ghost")["status"]) == (3, "unreachable")


def test_a_key_that_the_policy_does_not_know_is_refused_by_name(site: Site, inventory: Path) -> None:
    site.write_policy({"sysclt": {"net.core.somaxconn": 1}})
    try:
        ran = site.provision(inventory, "--limit", "good", "-o", "json")
    finally:
        site.write_policy(policy())
    assert "sysclt" in ran.host("good")["failure"]["message"]
    assert ran.host("good")["changes"] == []


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
