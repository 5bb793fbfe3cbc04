"""Two bare nodes are checked, converged and converged again, once by an INI and once by a YAML inventory."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
import yaml
from tests.lab.nodes import Lab, Node
from tests.lab.site import NOT_IN_A_NAMESPACE, Ran, Site, differences, policy, snapshot

from pdctl.content import content_root

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

SHIPPED = yaml.safe_load((content_root() / "roles/policy/files/policy.yml").read_text(encoding="utf-8"))
MOVED_BY_PROVISIONING = {"PD-LIMIT-002", "PD-LOCALE-001", "PD-SYSCTL-001", "PD-SYSCTL-002", "PD-YUM-002"}
# systemd-analyze(1): below it a unit is at least `MEDIUM`; an ordinary service stands at 9.6.
EXPOSED = 5.0
SYSCTLS = {key: str(value) for key, value in SHIPPED["sysctl"].items() if key not in NOT_IN_A_NAMESPACE}


def _without_its_locale(root: Path) -> None:
    """A node that misses the locale that the C library brings, and gives a later drop-in nothing to say."""
    for path in sorted((root / "usr/lib/locale/C.utf8").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (root / "usr/lib/locale/C.utf8").rmdir()


@dataclass(frozen=True)
class Story:
    site: Site
    bare: Mapping[str, str]
    after_check: Mapping[str, str]
    converged: Mapping[str, str]
    at_last: Mapping[str, str]
    check: Ran
    first: Ran
    second: Ran
    doctor_before: Mapping[tuple[str, str, str], str]
    doctor_after: Mapping[tuple[str, str, str], str]


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Story:
    lab.up(["n1"])
    lab.up(["n2"], _without_its_locale)
    site = Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1"], "decode": ["n2"]})

    def look() -> Mapping[str, str]:
        return {name: snapshot(node, SYSCTLS) for name, node in lab.nodes.items()}

    doctor_before = site.doctor(site.ini())
    bare = look()
    check = site.provision(site.ini(), "--check", "--diff", "-o", "json")
    after_check = look()
    first = site.provision(site.ini(), "-o", "json")
    converged = look()
    second = site.provision(site.yaml(), "-o", "json", environment={"LC_ALL": "C"})
    doctor_after = site.doctor(site.ini())
    return Story(site, bare, after_check, converged, look(), check, first, second, doctor_before, doctor_after)


def _node(story: Story, name: str) -> Node:
    return story.site.lab.nodes[name]


def test_a_check_changes_nothing(story: Story) -> None:
    for name in story.bare:
        assert differences(story.bare[name], story.after_check[name]) == []


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_a_check_says_what_the_run_then_changes(story: Story, name: str) -> None:
    def changed(ran: Ran) -> list[tuple[str, str]]:
        return [(change["role"], change["task"]) for change in ran.host(name)["changes"]]

    assert changed(story.check) == changed(story.first)
    assert any("net.ipv4.tcp_rmem" in str(change["diff"]) for change in story.check.host(name)["changes"])


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_the_first_run_changes_the_node(story: Story, name: str) -> None:
    assert story.first.code == 0, story.first.stderr
    assert story.first.host(name)["status"] == "changed"
    assert story.converged[name] != story.bare[name]


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_the_second_run_changes_nothing_under_lc_all_c_and_a_yaml_inventory(story: Story, name: str) -> None:
    assert story.second.code == 0, story.second.stderr
    host = story.second.host(name)
    assert (host["status"], host["changed"], host["problems"]) == ("ok", 0, [])
    assert differences(story.converged[name], story.at_last[name]) == []


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_kernel_parameters_are_live_and_recorded(story: Story, name: str) -> None:
    live = _node(story, name).ssh("; ".join(f"sysctl -n {key}" for key in SYSCTLS)).splitlines()
    assert dict(zip(SYSCTLS, (" ".join(line.split()) for line in live), strict=True)) == SYSCTLS
    recorded = _node(story, name).ssh("cat /etc/sysctl.d/90-pdctl.conf").splitlines()
    assert [line for line in recorded if not line.startswith("#")] == [
        f"{key} = {value}" for key, value in SYSCTLS.items()
    ]


@pytest.mark.parametrize(("name", "locale"), [("n1", "C.UTF-8"), ("n2", "en_US.UTF-8")])
def test_a_login_has_a_utf8_locale_that_exists(story: Story, name: str, locale: str) -> None:
    said = _node(story, name).ssh("locale charmap 2>&1; echo $LANG").splitlines()
    assert said == ["UTF-8", locale]


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_logins_and_services_have_the_limits(story: Story, name: str) -> None:
    wanted = [str(policy()["limits"][limit]) for limit in ("memlock", "nofile")]
    script = "ulimit -Hl; ulimit -Hn; ulimit -Sl; ulimit -Sn"
    assert _node(story, name).ssh(script).split() == wanted * 2
    service = f"systemd-run --quiet --wait --collect --pipe sh -c '{script}'"
    assert _node(story, name).ssh(service).split() == wanted * 2


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_the_doctor_s_findings_move_to_pass(story: Story, name: str) -> None:
    rows = [
        (check, subject, before, story.doctor_after[check, node, subject])
        for (check, node, subject), before in sorted(story.doctor_before.items())
        if node == name and (check, node, subject) in story.doctor_after
    ]
    moved = [row for row in rows if row[2] != row[3]]
    print("\n".join(f"{name}  {check}  {subject}: {before} -> {after}" for check, subject, before, after in moved))
    assert {row[0] for row in moved} == MOVED_BY_PROVISIONING
    assert {row[3] for row in moved} == {"pass"}


def test_the_kernel_without_rdma_is_said_and_fails_nothing(story: Story) -> None:
    notices = [notice["key"] for notice in story.first.host("n1")["notices"] if notice["role"] == "rdma"]
    assert notices == SHIPPED["modules"]["load"]


def test_what_a_node_has_not_is_skipped_with_its_reason(story: Story) -> None:
    told = {notice["role"]: notice["message"] for notice in story.second.host("n1")["notices"]}
    assert "container (systemd-nspawn) has the clock of its host" in told["time"]
    assert "has no module mlx5_core" in told["mlx5"]
    assert "no NVIDIA GPU" in told["gpu"]
    assert "no RDMA device" in told["firmware"]


@pytest.mark.parametrize(("name", "pool", "other"), [("n1", "prefill", "decode"), ("n2", "decode", "prefill")])
def test_a_node_has_the_unit_of_its_pool_hardened_and_not_started(
    story: Story, name: str, pool: str, other: str
) -> None:
    show = "systemctl show -p LoadState,ActiveState,UnitFileState,User,NoNewPrivileges,Environment"
    said = _node(story, name).ssh(f"{show} pdctl-{pool}").splitlines()
    assert {"LoadState=loaded", "ActiveState=inactive", "UnitFileState=disabled"} <= set(said)
    assert {"User=pdctl", "NoNewPrivileges=yes"} <= set(said)
    assert any("PYTHONUTF8=1" in line for line in said)
    assert "LoadState=not-found" in _node(story, name).ssh(f"systemctl show -p LoadState pdctl-{other}")
    (figure,) = (each for each in story.second.host(name)["notices"] if each["key"] == f"pdctl-{pool}.service")
    assert float(figure["message"].split()[1]) < EXPOSED, figure


def test_safe_yum_runs_dnf_under_a_locale_that_exists(story: Story) -> None:
    script = _node(story, "n2").ssh("cat /usr/local/sbin/safe_yum")
    assert "LC_ALL=en_US.UTF-8" in script
    said = _node(story, "n2").ssh("safe_yum 'two words' 2>&1 || true")
    assert "two words" in said


def test_the_json_follows_its_schema(story: Story) -> None:
    schema = Path(content_root() / "cli/pdctl/provisioning/provision.schema.json").read_text(encoding="utf-8")
    for ran in (story.check, story.first, story.second):
        jsonschema.validate(ran.document, yaml.safe_load(schema))


def test_the_record_holds_events_hosts_and_the_inventory(story: Story) -> None:
    folder = story.site.record(story.first)
    assert (folder / "events.jsonl").read_text(encoding="utf-8").count("\n") > 50
    assert "甲三" in (folder / "inventory/hosts.ini").read_text(encoding="utf-8")
    assert {path.name for path in (folder / "hosts").iterdir()} == {"n1.json", "n2.json"}
    about = yaml.safe_load((folder / "run.json").read_text(encoding="utf-8"))
    assert (about["state"], about["exit_code"]) == ("ended", 0)
    assert [path for path in folder.rglob("*") if path.stat().st_mode & 0o077] == []


def test_progress_names_host_and_change_line_by_line(story: Story) -> None:
    lines = [line for line in story.first.stderr.splitlines() if " n1  changed  " in line]
    assert len(lines) == story.first.host("n1")["changed"]


def test_plain_ansible_playbook_agrees(story: Story) -> None:
    playbook = content_root() / "playbooks/provision.yml"
    environment = {"ANSIBLE_CONFIG": str(content_root() / "ansible.cfg"), "LC_ALL": "C.UTF-8"}
    said = story.site.lab.run(
        *(
            str(Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            str(story.site.ini()),
            str(playbook),
            "--tags",
            "sysctl",
        ),
        environment=environment,
        timeout_s=240,
    )
    assert said.count("changed=0") == 2, said
