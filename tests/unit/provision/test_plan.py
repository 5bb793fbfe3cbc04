"""A plan says what it stands on, and names what moved since."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pdchecks.finding import Impact
from pdctl.content import content_root
from pdctl.errors import UsageError
from pdctl.inventory import Host, Inventory
from pdctl.provisioning.fingerprint import differences, fingerprint
from pdctl.provisioning.impact import gravest, impact_by_role
from pdctl.provisioning.options import Options
from pdctl.provisioning.outcome import Change, Failure, HostResult
from pdctl.provisioning.plan import (
    Plan,
    mark_deviations,
    moved,
    moved_nodes,
    plan_document,
    read_plan,
    refuse_unwritable,
    write_plan,
)

SCHEMA = content_root() / "cli" / "pdctl" / "provisioning" / "plan.schema.json"
SET, WRITE = Change("sysctl", "set", impact="none"), Change("limits", "write", "/etc/x", impact="restart-engine")
HOSTS = {f"n{n}": "a" for n in range(1, 5)}
PRINT = {"inventory": HOSTS, "policy": {"shipped": "b"}, "roles": {"roles/x": "c"}, "variables": {"token": "d"}}
STATE = {"n1": {"/etc/x": "1", "/proc/sys/a": "2"}, "n2": {}}


def _document() -> dict[str, Any]:
    options = Options(Path("hosts.ini"), Path("p.yml"), tags=("sysctl",), extra_vars=("token=hunter2",)).for_record()
    results = (
        HostResult("n1", "10.0.0.1", 9, [SET, WRITE], finished=True),
        HostResult("n2", "10.0.0.2", 9, finished=True),
        HostResult("n3", "10.0.0.3", unreachable="No route", finished=True),
        HostResult("n4", "10.0.0.4", 2, failure=Failure("r", "t", "m"), finished=True),
    )
    return plan_document("20260101T000000Z-000001", "salt", options, PRINT, results, STATE)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    write_plan(tmp_path / "plan.json", _document())
    assert (tmp_path / "plan.json").stat().st_mode & 0o077 == 0
    return read_plan(tmp_path / "plan.json")


def test_a_plan_holds_changes_and_the_gravest_impact_and_no_secret() -> None:
    document = json.loads(json.dumps(_document()))
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert {name: host["impact"] for name, host in document["hosts"].items()} == {"n1": "restart-engine", "n2": "none"}
    assert document["left_out"] == {"n3": "unreachable", "n4": "unfit"}
    assert [change["impact"] for change in document["hosts"]["n1"]["changes"]] == ["none", "restart-engine"]
    assert "hunter2" not in json.dumps(document)
    assert Path(document["options"]["inventory"]).is_absolute()


def test_what_did_not_move_lets_a_plan_hold(plan: Plan) -> None:
    assert moved(plan.fingerprint, PRINT) == []
    assert moved_nodes(plan, STATE) == []


@pytest.mark.parametrize(
    ("kind", "now", "line"),
    [
        ("inventory", PRINT["inventory"] | {"n1": "other"}, "inventory: n1"),
        ("inventory", PRINT["inventory"] | {"n5": "a"}, "inventory: n5"),
        ("policy", {"shipped": "x"}, "policy: shipped"),
        ("roles", {}, "roles: roles/x"),
        ("variables", {}, "variables: token"),
        ("roles", {f"roles/{n}": "c" for n in range(9)}, "roles: " + ", ".join(f"roles/{n}" for n in range(8))),
    ],
)
def test_what_moved_on_this_side_is_named(plan: Plan, kind: str, now: dict[str, str], line: str) -> None:
    (said,) = moved(plan.fingerprint, {**PRINT, kind: now})
    assert said.startswith(line)
    assert (" and 2 more" in said) is (len(now) == 9)


def test_what_moved_on_a_node_is_named(plan: Plan) -> None:
    now = {"n1": {"/etc/x": "other", "/proc/sys/a": "2", "/proc/sys/b": "3"}}
    assert moved_nodes(plan, now) == ["node n1: /etc/x, /proc/sys/b"]
    assert moved_nodes(plan, {"n2": {}}) == ["node n1: its state is not known"]


def test_a_change_beyond_the_plan_is_a_problem_and_one_that_was_not_needed_a_notice(plan: Plan) -> None:
    beyond = Change("rdma", "load")
    hosts = {
        "n1": HostResult("n1", "10.0.0.1", 9, [SET, beyond], finished=True),
        "n2": HostResult("n2", "10.0.0.2", 9, finished=True),
    }
    mark_deviations(plan, hosts)
    assert [(each["key"], each["outcome"]) for each in hosts["n1"].problems] == [("load", "unplanned")]
    assert [each["key"] for each in hosts["n1"].notices] == ["write"]
    assert (hosts["n2"].problems, hosts["n2"].notices) == ([], [])


def test_what_an_earlier_try_was_told_is_not_told_twice(plan: Plan) -> None:
    host = HostResult("n1", "10.0.0.1", 9, [Change("rdma", "load")], finished=True)
    for _try in range(2):
        mark_deviations(plan, {"n1": host, "n2": HostResult("n2", "10.0.0.2", 9, finished=True)})
    assert (len(host.problems), len(host.notices)) == (1, 2)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"{}", b'{"schema": "pdctl.plan/2"}', b"[" * 100_000, b"\xff",
        json.dumps(_document() | {"hosts": []}).encode(),
        json.dumps(_document() | {"hosts": {"n1": {"state": {}, "changes": [{}]}}}).encode(),
        json.dumps(_document() | {"options": {"inventory": 1}}).encode(),
        json.dumps(_document() | {"fingerprint": {"roles": {}}}).encode(),
        json.dumps(_document() | {"options": _document()["options"] | {"tags": [1]}}).encode(),
    ],
)  # fmt: skip
def test_a_file_that_is_no_plan_is_a_usage_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="no plan in"):
        read_plan(path)
    with pytest.raises(UsageError, match="no plan in"):
        read_plan(tmp_path / "none.json")


def test_a_host_that_was_taken_out_of_a_plan_by_hand_is_named_and_not_run_on(tmp_path: Path) -> None:
    document = _document()
    del document["hosts"]["n2"]
    write_plan(tmp_path / "plan.json", document)
    with pytest.raises(UsageError) as caught:
        read_plan(tmp_path / "plan.json")
    assert "neither planned nor left out: n2" in str(caught.value.detail)


def test_a_plan_of_a_newer_pdctl_is_named_as_such(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.json", _document() | {"schema": "pdctl.plan/9"})
    with pytest.raises(UsageError) as caught:
        read_plan(tmp_path / "plan.json")
    assert caught.value.detail == "its schema is `pdctl.plan/9`, and this pdctl reads `pdctl.plan/1`"


def test_where_no_plan_can_be_written_it_is_said_before_the_nodes_are_looked_at(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "plan.json", Path("/dev/null")):
        with pytest.raises(UsageError, match="the plan cannot be written to"):
            refuse_unwritable(path)
    refuse_unwritable(tmp_path / "plan.json")
    assert list(tmp_path.iterdir()) == []


def test_a_plan_is_written_through_a_link_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old", encoding="utf-8")
    (tmp_path / "link.json").symlink_to("real.json")
    write_plan(tmp_path / "link.json", _document())
    assert read_plan(tmp_path / "real.json").run == _document()["run"]
    assert {each.name for each in tmp_path.iterdir()} == {"real.json", "link.json"}


def _inventory(folder: Path, **variables: Any) -> Inventory:
    host = Host("n1", "10.0.0.1", 22, "root", None, "ssh", variables, ("prefill",))
    return Inventory(folder / "hosts.ini", (host,))


def test_each_thing_that_a_plan_stands_on_moves_its_own_digest_only(tmp_path: Path) -> None:
    def moved_kinds(now: Any) -> dict[str, list[str]]:
        return {kind: names for kind in base if (names := differences(base[kind], now[kind]))}

    base = fingerprint(_inventory(tmp_path, a=1), {"token": "x"}, "salt")
    assert moved_kinds(fingerprint(_inventory(tmp_path, a=1), {"token": "x"}, "salt")) == {}
    assert moved_kinds(fingerprint(_inventory(tmp_path, a=2), {"token": "x"}, "salt")) == {"inventory": ["n1"]}
    assert moved_kinds(fingerprint(_inventory(tmp_path, a=1), {"token": "y"}, "salt")) == {"variables": ["token"]}
    (tmp_path / "policy.yml").write_text("limits: {nofile: 1000}\n", encoding="utf-8")
    now = fingerprint(_inventory(tmp_path, a=1), {"token": "x"}, "salt")
    assert moved_kinds(now) == {"policy": ["policy.yml beside the inventory"]}
    assert "roles/sysctl/tasks/main.yml" in base["roles"] and "playbooks/provision.yml" in base["roles"]


def test_every_role_that_changes_a_node_says_with_what_impact() -> None:
    play = yaml.safe_load((content_root() / "playbooks" / "provision.yml").read_text(encoding="utf-8"))[0]
    tagged = {role["role"] for role in play["roles"] if role.get("tags") == [role["role"]]}
    assert set(impact_by_role()) == tagged
    assert gravest(["none", None, "driver-reload", "restart-engine"]) is Impact.DRIVER_RELOAD
    assert gravest([]) is Impact.NONE
