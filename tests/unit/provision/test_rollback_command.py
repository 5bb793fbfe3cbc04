"""`pdctl runs rollback` finds its run and refuses what has no way back, before any node is reached."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pdctl.provisioning.backup import limit_of, newest_to_roll_back, take_copy
from pdctl.provisioning.record import RunRecord
from pdctl.provisioning.runs import Run, find_run

KEPT = {"event": "runner_on_ok", "event_data": {"host": "n/1", "task_action": "pdctl_backup"}}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def _rollback(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pdctl", "runs", "rollback", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", timeout=60)


def _ended(command: str, *statuses: str, check: bool = False) -> Run:
    hosts = {f"n{number}": {"status": status} for number, status in enumerate(statuses)}
    record = RunRecord(command, {"check": check, "inventory": "/none"}, dict.fromkeys(hosts, "10.0.0.1"))
    record.close(0, hosts)
    return find_run(record.id)


def test_a_check_has_no_way_back() -> None:
    record = RunRecord("provision", {"check": True, "inventory": "/none"}, {"n1": "10.0.0.1"})
    record.close(0, {})
    done = _rollback(record.id)
    assert (done.returncode, "was a check" in done.stderr) == (2, True)


def test_last_is_the_newest_run_that_changed_a_node_not_a_check_of_the_way_back() -> None:
    assert "no run that is recorded here changed a node" in _rollback("last").stderr
    runs = [
        _ended("provision", "changed", "changed"),
        _ended("provision", "changed", "ok"),
        _ended("provision", "ok", "ok"),
        _ended("provision", "changed", "changed", check=True),
        _ended("provision", "ok", "unfit"),
        _ended("runs rollback", "changed", "changed"),
        _ended("runs rollback", "changed", "changed", check=True),
    ]
    assert newest_to_roll_back(reversed(runs)).id == runs[1].id


def test_last_is_also_a_run_that_did_not_say_how_it_ended() -> None:
    silent = _ended("provision")
    assert newest_to_roll_back([silent, _ended("provision", "changed")]).id == silent.id


def test_a_run_that_is_still_running_is_not_rolled_back() -> None:
    record = RunRecord("provision", {"inventory": "/none"}, {"n1": "10.0.0.1"})
    done = _rollback(record.id)
    assert (done.returncode, "still running" in done.stderr) == (2, True)


def test_a_run_of_another_machine_needs_its_whole_id_and_an_inventory(tmp_path: Path) -> None:
    inventory = tmp_path / "none.ini"
    assert "no run `20260101T000000Z-00000a`" in _rollback("20260101T000000Z-00000a").stderr
    assert "no run `20260101`" in _rollback("20260101", "-i", str(inventory)).stderr
    assert "none.ini" in _rollback("20260101T000000Z-00000a", "-i", str(inventory)).stderr


def test_a_copy_lies_once_in_the_record_and_what_the_run_left_is_added() -> None:
    record = RunRecord("provision", {}, {"n/1": "10.0.0.1", "n2": "10.0.0.2"})
    for copy in ({"paths": {}}, {"after": {}}):
        event = json.loads(json.dumps(KEPT))
        event["event_data"]["res"] = {"changed": False, "copy": copy}
        taken = take_copy(event)
        assert taken == ("n/1", copy)
        assert event["event_data"]["res"] == {"changed": False}
        record.keep_backup(*taken)
    (kept,) = (record.folder / "backups").iterdir()
    assert json.loads(kept.read_text()) == {"paths": {}, "after": {}}
    assert kept.stat().st_mode & 0o077 == 0
    assert kept.parent.stat().st_mode & 0o077 == 0
    record.keep_backup("n/1", {"unchanged": True})
    assert json.loads(kept.read_text()) == {"unchanged": True}


def test_a_rollback_goes_to_the_hosts_that_the_run_reached() -> None:
    record = RunRecord("provision", {"limit": "all:!n9"}, {"甲一": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"})
    for host in ("甲一", "n3"):
        record.keep_backup(host, {"unchanged": True})
    assert limit_of(find_run(record.id)) == "甲一,n3"


def test_a_name_that_means_more_in_a_pattern_falls_back_to_the_run_s_own_limit() -> None:
    record = RunRecord("provision", {"limit": "prefill"}, {"n:1": "10.0.0.1"})
    record.keep_backup("n:1", {"unchanged": True})
    assert limit_of(find_run(record.id)) == "prefill"


def test_an_event_without_a_copy_is_left_alone() -> None:
    assert take_copy({"event": "runner_on_ok", "event_data": {"task_action": "template", "res": {"copy": 1}}}) is None
    assert take_copy({"event": "runner_on_failed", "event_data": {"task_action": "pdctl_backup"}}) is None
