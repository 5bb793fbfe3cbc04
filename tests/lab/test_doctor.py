"""The doctor looks at real nodes before and after they are converged: by root, and by a user who may do nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.lab.nodes import Lab
from tests.lab.site import Ran, Site, policy

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

BAD = ("fail", "warn")


def _meagre(root: Path) -> None:
    """Soft limits below any policy, in drop-ins that come before those of the role. Hard ones a container cannot raise."""
    enough = policy()["limits"]["memlock"]
    for name, text in {
        "etc/security/limits.d/10-meagre.conf": "* soft memlock 64\nroot soft memlock 64\n",
        "etc/systemd/system.conf.d/10-meagre.conf": f"[Manager]\nDefaultLimitMEMLOCK=64K:{enough}K\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Story:
    site: Site
    before: Ran
    provisioned: Ran
    after: Ran
    by_the_shipped_policy: Ran
    by_a_stranger: Ran
    collected: Ran
    kept: Ran
    redacted: Ran


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Story:
    (node,) = lab.up(["n1"], _meagre)
    site = Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1"]})
    before = site.diagnose(site.ini())
    provisioned = site.provision(site.ini(), "-o", "json")
    after = site.diagnose(site.ini())
    shipped = site.folder / "nothing-of-its-own.yml"
    shipped.write_text("{}\n", encoding="utf-8")
    collected = site.collect(site.ini(), site.folder / "x.tar.zst")
    site.collect(site.ini(), site.folder / "y.tar", "--redact")
    kept, redacted = (site.diagnose_kept(site.folder / name) for name in ("x.tar.zst", "y.tar"))
    plain = site.diagnose(site.ini(), "--policy", str(shipped))
    node.ssh("useradd -m guest && install -d -o guest -m 700 ~guest/.ssh")
    node.ssh("install -o guest -m 600 ~/.ssh/authorized_keys ~guest/.ssh/authorized_keys")
    stranger = site.diagnose(site.ini({"n1": "ansible_user=guest"}))
    return Story(site, before, provisioned, after, plain, stranger, collected, kept, redacted)


def _statuses(ran: Ran) -> Mapping[tuple[str, str], str]:
    return {(f["topic"], f["subject"]["object"]): f["status"] for f in ran.document["findings"]}


def test_nothing_is_left_out(story: Story) -> None:
    for ran in (story.before, story.after, story.by_a_stranger):
        assert ran.document["incomplete"] == []


@pytest.mark.parametrize(
    "subject",
    [
        ("locale.utf8", "node's locale"),
        ("limits.nofile", "nofile of this session"),
        ("limits.nofile", "nofile of systemd services"),
        ("sysctl.buffers", "net.ipv4.tcp_rmem"),
        ("sysctl.buffers", "net.ipv4.tcp_wmem"),
        ("yum.wrapper", "safe_yum"),
    ],
    ids=lambda subject: subject[1].replace(" ", "-"),
)
def test_what_provision_converges_moves_to_pass(story: Story, subject: tuple[str, str]) -> None:
    assert story.provisioned.code == 0, story.provisioned.stderr
    assert _statuses(story.before)[subject] in BAD
    assert _statuses(story.after)[subject] == "pass"


@pytest.mark.parametrize("key", ["arp_ignore", "arp_announce", "rp_filter"])
def test_what_only_rails_need_is_told_and_no_fault_on_a_node_with_one_interface(story: Story, key: str) -> None:
    subject = ("sysctl.rails", f"net.ipv4.conf.all.{key}")
    assert (_statuses(story.before)[subject], _statuses(story.after)[subject]) == ("info", "pass")


@pytest.mark.parametrize("whose", ["this session", "systemd services"])
def test_locked_memory_is_told_and_no_fault_where_no_device_needs_it(story: Story, whose: str) -> None:
    subject = ("limits.memlock", f"memlock of {whose}")
    assert (_statuses(story.before)[subject], _statuses(story.after)[subject]) == ("info", "pass")


def test_a_fail_becomes_exit_code_1_and_goes_away(story: Story) -> None:
    assert story.before.code == 1
    assert "fail" not in _statuses(story.after).values()


def test_what_a_namespace_hides_is_unknown_and_what_it_refuses_keeps_its_live_value(story: Story) -> None:
    findings = {f["subject"]["object"]: f for f in story.by_the_shipped_policy.document["findings"]}
    hidden = findings["neighbour table"]
    assert (hidden["topic"], hidden["status"]) == ("neigh.table", "unknown")
    assert "No such file" in hidden["summary"]
    refused = findings["net.core.rmem_max"]
    assert refused["status"] == "warn"
    assert refused["evidence"][0]["text"].split(":")[-1] in refused["summary"]


def test_a_user_who_may_do_nothing_sees_the_same_host_and_what_he_may_not_see_is_unknown(story: Story) -> None:
    root, guest = _statuses(story.after), _statuses(story.by_a_stranger)
    for topic in ("locale.utf8", "sysctl.buffers", "sysctl.rails", "yum.wrapper", "service.rdma"):
        subjects = {key: status for key, status in root.items() if key[0] == topic}
        assert subjects == {key: guest.get(key) for key in subjects}
    assert not [key for key, status in guest.items() if status in BAD and root.get(key) == "pass"]
    assert {
        key[1] for key, status in guest.items() if status == "pass" and root.get(key) not in ("pass", "info")
    } == set()


def test_the_policy_of_the_site_is_the_one_that_counts(story: Story) -> None:
    floor = policy()["limits"]["nofile"]
    said = next(f for f in story.before.document["findings"] if f["subject"]["object"] == "nofile of this session")
    assert str(floor) in said["summary"]


def test_a_bundle_of_real_nodes_says_what_the_live_look_said(story: Story) -> None:
    assert story.collected.code == 0, story.collected.stderr
    assert _statuses(story.kept) == _statuses(story.after)
    assert {f["subject"]["node"] for f in story.kept.document["findings"]} == {"n1"}


def test_a_redacted_bundle_of_real_nodes_says_the_same_without_their_names_and_addresses(story: Story) -> None:
    assert _statuses(story.redacted) == _statuses(story.after)
    (node,) = {f["subject"]["node"] for f in story.redacted.document["findings"]}
    assert node != "n1"
    content = (story.site.folder / "y.tar").read_bytes()
    address = story.site.lab.nodes["n1"].address
    assert address.encode() not in content
    assert b"n1/" not in content
    assert all(line.split()[1].encode() not in content for line in _macs(story))


def _macs(story: Story) -> list[str]:
    return [line.strip() for line in story.site.lab.nodes["n1"].ssh("ip link").splitlines() if "link/ether" in line]
