"""A node with a past of its own is provisioned in full and rolled back: every managed file and live value is as it was."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.lab.nodes import Lab, Node
from tests.lab.site import Ran, Site, differences, snapshot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

SYSCTLS = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.core.somaxconn")
OLD_RECORD = b"# of another tool\r\nnet.core.somaxconn = 77 \xff\xfe\n\n"
RECORD = "/etc/sysctl.d/90-pdctl.conf"
SERVICES = "/etc/systemd/system.conf.d/90-pdctl.conf"


def _with_a_past(root: Path) -> None:
    """No UTF-8 locale, and an old file of another owner where pdctl writes its own."""
    for path in sorted((root / "usr/lib/locale/C.utf8").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (root / "usr/lib/locale/C.utf8").rmdir()
    record = root / RECORD.lstrip("/")
    record.write_bytes(OLD_RECORD)
    record.chmod(0o640)


@dataclass(frozen=True)
class Story:
    site: Site
    node: Node
    former: str
    provisioned: str
    after_check: str
    restored: str
    first: Ran
    check: Ran
    rollback: Ran
    second: Ran
    at_last: str


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Story:
    (node,) = lab.up(["n1"], _with_a_past)
    node.ssh(f"chown 65534:65534 {RECORD}; sysctl -qw net.core.somaxconn=77 net.ipv4.tcp_rmem='4096 65536 1048576'")
    site = Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1"]})

    def look() -> str:
        return snapshot(node, SYSCTLS) + node.ssh(f"stat -c '%n %a %u %g' {RECORD}")

    former = look()
    first = site.provision(site.ini(), "-o", "json")
    run, provisioned = first.document["run"]["id"], look()
    check = site.pdctl("runs", "rollback", run, "--check", "-o", "json")
    after_check = look()
    rollback = site.pdctl("runs", "rollback", run, "-o", "json")
    restored = look()
    second = site.pdctl("runs", "rollback", run, "-o", "json")
    return Story(site, node, former, provisioned, after_check, restored, first, check, rollback, second, look())


def test_the_run_changed_what_the_rollback_is_about(story: Story) -> None:
    assert story.first.code == 0, story.first.stderr
    changed = "\n".join(differences(story.former, story.provisioned))
    for part in (RECORD, SERVICES, "locale-archive", "net/core/somaxconn", "DefaultLimitNOFILE", "/etc/locale.gen"):
        assert part in changed
    assert "pdctl-prefill.service" in changed


def test_the_check_touches_nothing_and_names_all_that_comes_back(story: Story) -> None:
    assert story.check.code == 0, story.check.stderr
    assert differences(story.provisioned, story.after_check) == []
    shown = json.dumps(story.check.host("n1")["changes"])
    for part in (
        RECORD,
        SERVICES,
        "locale-archive",
        "net.core.somaxconn = 77",
        "net.ipv4.tcp_rmem = 4096 65536 1048576",
    ):
        assert part in shown


def test_the_rollback_restores_every_managed_file_and_live_value(story: Story) -> None:
    assert story.rollback.code == 0, story.rollback.stderr
    assert story.rollback.host("n1")["problems"] == []
    assert differences(story.former, story.restored) == []
    assert (story.node.root / RECORD.lstrip("/")).read_bytes() == OLD_RECORD
    assert story.node.ssh("getent passwd pdctl || echo no account").strip() == "no account"
    assert story.node.ssh("systemctl show -p LoadState pdctl-prefill").strip() == "LoadState=not-found"


def test_a_second_rollback_changes_nothing(story: Story) -> None:
    assert story.second.code == 0, story.second.stderr
    assert (story.second.host("n1")["status"], story.second.host("n1")["changed"]) == ("ok", 0)
    assert differences(story.restored, story.at_last) == []


def test_what_the_node_keeps_is_for_root_only(story: Story) -> None:
    assert story.node.ssh("stat -c '%a %U' /var/lib/pdctl/runs").split() == ["700", "root"]
    assert story.node.ssh("find /var/lib/pdctl/runs -perm /077").strip() == ""


def test_a_file_changed_since_the_run_is_named_and_nothing_of_the_node_is_touched(story: Story) -> None:
    again = story.site.provision(story.site.ini(), "--tags", "sysctl,limits", "-o", "json")
    run = again.document["run"]["id"]
    story.node.ssh(f"echo '# by hand' >> {SERVICES}")
    before = snapshot(story.node, SYSCTLS)
    refused = story.site.pdctl("runs", "rollback", run, "-o", "json")
    assert refused.code == 5
    assert SERVICES in refused.host("n1")["failure"]["message"]
    assert differences(before, snapshot(story.node, SYSCTLS)) == []
    # The node's backup is lost: the copy in the record does.
    story.node.ssh("rm -r /var/lib/pdctl/runs")
    forced = story.site.pdctl("runs", "rollback", run, "--force", "-o", "json")
    assert forced.code == 0, forced.stderr
    assert differences(story.restored.rsplit(RECORD, 1)[0], snapshot(story.node, SYSCTLS)) == []


def test_a_run_that_changed_nothing_has_nothing_to_roll_back(story: Story) -> None:
    story.site.provision(story.site.ini(), "--tags", "sysctl")
    nothing = story.site.provision(story.site.ini(), "--tags", "sysctl", "-o", "json")
    assert nothing.host("n1")["changed"] == 0
    rolled = story.site.pdctl("runs", "rollback", nothing.document["run"]["id"], "-o", "json")
    assert (rolled.code, rolled.host("n1")["status"]) == (0, "ok")
