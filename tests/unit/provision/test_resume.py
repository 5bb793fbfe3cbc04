"""`pdctl runs resume` goes on where a run was, with the hosts that are not done, and only over what it stood on."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pdctl.errors import UsageError
from pdctl.provisioning.document import host_document
from pdctl.provisioning.options import Options
from pdctl.provisioning.outcome import Failure, HostResult, Status
from pdctl.provisioning.plan import plan_document
from pdctl.provisioning.record import RunRecord
from pdctl.provisioning.resume import resumed, run_to_resume
from pdctl.provisioning.runs import State, find_run, results

BASIS = {"salt": "s", "fingerprint": {"inventory": {}, "policy": {}, "roles": {}, "variables": {"token": "x"}}}
OPTIONS = {"inventory": "/none.ini", "playbook": "provision.yml", "forks": 4, "connect_timeout_s": 15}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def _record(*names: str, **options: Any) -> RunRecord:
    return RunRecord("provision", {**OPTIONS, **options}, dict.fromkeys(names, "10.0.0.1"), BASIS)


def _ended(*hosts: HostResult, **options: Any) -> RunRecord:
    record = _record(*(host.name for host in hosts), **options)
    record.close(0, {host.name: host_document(host) for host in hosts})
    return record


def _done(name: str) -> dict[str, Any]:
    return {"event": "runner_on_ok", "event_data": {"host": name, "task_action": "pdctl_verdict", "res": {}}}


def _begun(name: str) -> dict[str, Any]:
    changed = {"changed": True, "invocation": {}}
    return {"event": "runner_on_ok", "event_data": {"host": name, "role": "sysctl", "task": "set", "res": changed}}


def _cut_off(record: RunRecord) -> None:
    """As after kill -9: a torn line, no end, and a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(timeout=60)
    with (record.folder / "events.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"event": "runner_on_ok", "event_da')
    about = json.loads((record.folder / "run.json").read_text())
    (record.folder / "run.json").write_text(json.dumps(about | {"pid": process.pid}))
    record.abandon()


def _pdctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pdctl", "runs", "resume", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", timeout=60)


def test_the_hosts_that_are_done_are_not_done_again() -> None:
    record = _record("n1", "n2", "n3")
    for event in (_begun("n1"), _begun("n2"), _done("n1")):
        record.event(event)
    _cut_off(record)
    run = find_run(record.id)
    found = resumed(run)
    assert run.state is State.CUT_OFF and found is not None
    assert found.left == ("n2", "n3")
    assert found.hosts["n1"].status is Status.CHANGED


@pytest.mark.parametrize(
    "host",
    [
        HostResult("n", "a", unreachable="No route", finished=True),
        HostResult("n", "a", failure=Failure("r", "t", "m"), finished=True, touched=True),
        HostResult("n", "a", failure=Failure("r", "t", "m"), finished=True),
        HostResult("n", "a", held_by="another run", finished=True),
        HostResult("n", "a", tasks=3),
        HostResult("n", "a"),
    ],
    ids=["unreachable", "failed", "unfit", "held by another", "incomplete", "not begun"],
)
def test_a_host_that_did_not_come_through_is_done_again(host: HostResult) -> None:
    record = _ended(host, HostResult("ok", "a", finished=True))
    found = resumed(find_run(record.id))
    assert found is not None and found.left == ("n",)


def test_where_nothing_is_left_to_do_it_says_so_and_is_done() -> None:
    record = _ended(HostResult("n", "a", finished=True))
    done = _pdctl()
    assert (done.returncode, done.stdout) == (0, "")
    assert f"run {record.id} is done on each of its 1 host(s)" in done.stderr


def test_it_stays_one_run_and_its_events_can_be_read_over_the_torn_line() -> None:
    record = _record("n1", "n2")
    record.event(_begun("n1"))
    _cut_off(record)
    run = find_run(record.id)
    again = RunRecord.again(run.folder, run.about, ["n1", "n2"])
    again.event(_done("n1"))
    assert again.id == record.id
    assert find_run(record.id).state is State.RUNNING
    _cut_off(again)
    read = results(find_run(record.id))
    assert [(host.status, host.finished) for host in read.hosts] == [
        (Status.CHANGED, True),
        (Status.UNTOUCHED, False),
    ]


def test_two_cannot_go_on_with_one_run() -> None:
    record = _record("n1")
    run = find_run(record.id)
    with pytest.raises(UsageError, match="under way"):
        RunRecord.again(run.folder, run.about, ["n1"])


def test_without_an_id_the_newest_run_that_is_no_check_is_meant() -> None:
    meant = _ended(HostResult("n", "a"))
    _ended(HostResult("n", "a"), check=True)
    assert run_to_resume(None).id == meant.id


def _damaged() -> RunRecord:
    record = _ended(HostResult("n", "a"))
    (record.folder / "run.json").write_text("{")
    return record


def _of_before() -> RunRecord:
    record = RunRecord("provision", OPTIONS, {"n": "a"})
    record.close(0, {})
    return record


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_damaged, "is damaged"),
        (lambda: _record("n"), "still running"),
        (lambda: _ended(HostResult("n", "a"), check=True), "was a check"),
        (_of_before, "does not say what it stood on"),
    ],
    ids=["damaged", "running", "a check", "without a basis"],
)
def test_a_run_that_cannot_go_on_is_a_usage_error(make: Any, why: str) -> None:
    record = make()
    done = _pdctl(record.id)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


def test_a_missing_variable_is_named_and_asked_for_again(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.ini"
    inventory.write_text("n1 ansible_host=192.0.2.1\n", encoding="utf-8")
    record = _ended(HostResult("n1", "192.0.2.1"), inventory=str(inventory))
    done = _pdctl(record.id)
    assert done.returncode == 2
    assert "variables: token" in done.stderr and "give the same `-e` again" in done.stderr
    assert find_run(record.id).state is State.ENDED


def test_a_run_of_a_plan_goes_on_only_while_the_plan_holds(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.ini"
    inventory.write_text("n1 ansible_host=192.0.2.1\n", encoding="utf-8")
    host = HostResult("n1", "192.0.2.1", finished=True)
    asked = Options(inventory, tmp_path / "provision.yml").for_record()
    plan = plan_document("20260101T000000Z-000001", "s", asked, BASIS["fingerprint"], (host,), {"n1": {}})
    record = _record("n1", inventory=str(inventory), apply_plan=plan["run"])
    record.keep_plan(plan)
    _cut_off(record)
    refused = _pdctl(record.id, "-e", "token=x")
    assert refused.returncode == 2
    assert "the plan no longer holds, so nothing was touched" in refused.stderr
    assert "inventory: n1" in refused.stderr and "variables: token" in refused.stderr

    (record.folder / "plan.json").unlink()
    lost = _pdctl(record.id, "-e", "token=x")
    assert lost.returncode == 2 and "no plan in" in lost.stderr
