"""What is in a run's way on a node that passed the look: a full disk, a file that cannot be replaced, no answer, a dead mirror.

Each is named on its node, no file is left half written, and the next run converges once it is out of the way.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.lab.connections import unanswered
from tests.lab.nodes import Lab
from tests.lab.site import Ran, Site

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SYSCTLS, LIMITS = "/etc/sysctl.d/90-pdctl.conf", "/etc/security/limits.d/90-pdctl.conf"
BEFORE = "# of the site\n* soft nofile 900\n"
MIRROR = "http://127.0.0.1:8099"
OPTIONS = ("--tags", "sysctl,limits,rdma", "--timeout", "4", "-o", "json")
# A file system of its own that has no room: below the folders that the role `preflight` looks at.
_FULL = "mkdir -p {0} && mount -t tmpfs -o size=64k tmpfs {0} && head -c 1M /dev/zero >{0}/ballast 2>/dev/null; true"
_PINNED = f"printf '{BEFORE}' >{LIMITS} && mount --bind {LIMITS} {LIMITS} && mount -o remount,bind,ro {LIMITS}"
# A mirror that serves its index, and dies before it is asked for the package.
_MIRROR = rf"""
set -e
mkdir -p /srv/mirror/tree/DEBIAN && cd /srv/mirror
printf 'Package: lab-probe\nVersion: 1\nArchitecture: all\nMaintainer: lab\nDescription: probe\n' >tree/DEBIAN/control
dpkg-deb --build --root-owner-group -Znone tree probe.deb >/dev/null
{{ cat tree/DEBIAN/control; echo Filename: ./probe.deb; echo Size: $(stat -c %s probe.deb)
  echo SHA256: $(sha256sum probe.deb | cut -d' ' -f1); }} >Packages
rm -rf /etc/apt/sources.list.d/* tree && echo 'deb [trusted=yes] {MIRROR} ./' >/etc/apt/sources.list
systemd-run -q --unit mirror python3 -m http.server -b 127.0.0.1 -d /srv/mirror {MIRROR.rpartition(":")[2]}
timeout 60 sh -c 'until apt-get update -q && apt-cache show lab-probe; do sleep 0.2; done' >/dev/null 2>&1
"""
_WANTED = {"services": {"rdma": {"Debian": {"packages": ["rdma-core", "lab-probe"]}}}}
_LEFT = r"find /etc /var/lib/pdctl -name '.ansible_tmp*' -o -name '.pdctl-*' -o -name '*.partial' 2>/dev/null; true"


@dataclass(frozen=True)
class Story:
    site: Site
    ran: Ran
    left: dict[str, str]


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Story:
    names = ["full", "nostate", "pinned", "silent", "mirror", "folder"]
    full, nostate, pinned, silent, mirror, folder = lab.up(names)
    folder.ssh(f"mkdir {SYSCTLS}")
    full.ssh(_FULL.format(Path(SYSCTLS).parent))
    nostate.ssh(_FULL.format("/var/lib/pdctl"))
    pinned.ssh(_PINNED)
    mirror.ssh(_MIRROR + "systemctl stop mirror", timeout_s=120)
    site = Site(lab, tmp_path_factory.mktemp("site"), {"prefill": names, "decode": []})
    with unanswered(silent):
        ran = site.provision(_inventory(site), *OPTIONS)
    return Story(site, ran, {name: node.ssh(_LEFT) for name, node in lab.nodes.items()})


def _inventory(site: Site) -> Path:
    return site.ini({"mirror": f"pdctl_policy='{json.dumps(_WANTED)}'"})


def test_each_node_ends_as_far_as_it_was_touched(story: Story) -> None:
    assert {host["name"]: host["status"] for host in story.ran.document["hosts"]} == {
        "full": "failed",
        "nostate": "unfit",
        "pinned": "failed",
        "silent": "unreachable",
        "mirror": "partly",
        "folder": "unfit",
    }, story.ran.stderr
    assert story.ran.code == 5


def test_a_disk_that_is_full_is_named_and_the_file_is_not_there(story: Story) -> None:
    failure = story.ran.host("full")["failure"]
    assert failure["role"] == "sysctl"
    assert SYSCTLS in failure["message"] and "No space left on device" in failure["message"]
    assert story.site.lab.nodes["full"].ssh(f"ls {SYSCTLS} 2>/dev/null; true") == ""


def test_a_node_that_cannot_keep_its_former_state_is_not_touched(story: Story) -> None:
    host = story.ran.host("nostate")
    assert (host["changes"], host["touched"]) == ([], False)
    assert "/var/lib/pdctl" in host["failure"]["message"] and "No space left on device" in host["failure"]["message"]
    assert story.site.lab.nodes["nostate"].ssh(f"ls {SYSCTLS} {LIMITS} 2>/dev/null; true") == ""


def test_a_file_that_cannot_be_replaced_is_named_and_stays_as_it_was(story: Story) -> None:
    failure = story.ran.host("pinned")["failure"]
    assert failure["role"] == "limits" and LIMITS in failure["message"]
    assert story.site.lab.nodes["pinned"].ssh(f"cat {LIMITS}") == BEFORE


def test_a_folder_where_a_role_keeps_a_file_is_named_and_nothing_is_put_into_it(story: Story) -> None:
    host = story.ran.host("folder")
    assert (host["changes"], host["touched"]) == ([], False)
    assert f"{SYSCTLS} is a folder" in host["failure"]["message"]
    assert story.site.lab.nodes["folder"].ssh(f"ls -A {SYSCTLS} {LIMITS} 2>/dev/null; true") == f"{SYSCTLS}:\n"


def test_a_node_that_takes_the_connection_and_does_not_answer_is_named_with_the_deadline(story: Story) -> None:
    assert "nothing answers there within 4 s" in story.ran.host("silent")["unreachable"]


def test_a_dead_mirror_is_named_and_the_rest_is_done(story: Story) -> None:
    (problem,) = story.ran.host("mirror")["problems"]
    assert (problem["role"], problem["key"]) == ("rdma", "packages")
    assert "127.0.0.1" in problem["message"] and "lab-probe" in problem["message"]
    assert "tcp_rmem" in story.site.lab.nodes["mirror"].ssh(f"cat {SYSCTLS}")


def test_no_file_is_left_half_written_and_no_node_locked(story: Story) -> None:
    assert set(story.left.values()) == {""}
    locked = [
        name
        for name, node in story.site.lab.nodes.items()
        if node.ssh("ls /var/lib/pdctl/lock.json 2>&1; true")[:3] != "ls:"
    ]
    assert locked == []


def test_once_they_are_out_of_the_way_the_same_run_goes_on_and_converges(soak: None, story: Story) -> None:
    nodes = story.site.lab.nodes
    nodes["full"].ssh(f"umount {Path(SYSCTLS).parent}")
    nodes["nostate"].ssh("umount /var/lib/pdctl")
    nodes["pinned"].ssh(f"umount {LIMITS}")
    nodes["mirror"].ssh(_MIRROR, timeout_s=120)
    nodes["folder"].ssh(f"rmdir {SYSCTLS}")
    ran = story.site.pdctl("runs", "resume", "-o", "json")
    assert ran.code == 4, ran.stderr
    assert {host["name"]: host["status"] for host in ran.document["hosts"]} == {
        "full": "changed", "nostate": "changed", "pinned": "changed", "silent": "changed", "mirror": "partly",
        "folder": "changed",
    }  # fmt: skip
    last = story.site.provision(_inventory(story.site), "--limit", "mirror", *OPTIONS)
    assert last.code == 0, last.stderr
