"""`pdctl runs` shows what the records say, and says what a damaged one does not."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pdctl.errors import UsageError
from pdctl.provisioning.document import host_document, host_result
from pdctl.provisioning.outcome import Change, Failure, HostResult, Status
from pdctl.provisioning.record import RunRecord
from pdctl.provisioning.runs import State, all_runs, find_run, results

SCHEMA = Path(host_document.__code__.co_filename).with_name("runs.schema.json")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def _changed() -> HostResult:
    diff = [{"before": "a = 1\n", "after": "a = 2\n"}]
    return HostResult("甲一", "10.0.0.1", 9, [Change("sysctl", "set", "/etc/x", diff)], finished=True)


def _ended(*hosts: HostResult, exit_code: int = 0) -> RunRecord:
    options = {"inventory": "hosts.ini", "check": False, "tags": ["sysctl"]}
    record = RunRecord("provision", options, {host.name: host.address for host in hosts})
    record.close(exit_code, {host.name: host_document(host) for host in hosts})
    return record


def _pdctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pdctl", "runs", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", timeout=60)


@pytest.mark.parametrize(
    "host",
    [
        _changed(),
        HostResult("n", "a", failure=Failure("r", "t", "m"), finished=True, touched=True),
        HostResult("n", "a", failure=Failure("r", "t", "m"), finished=True),
        HostResult("n", "a", unreachable="No route", finished=True),
        HostResult("n", "a", problems=[{"role": "r", "key": "k", "outcome": "refused", "message": "m"}]),
        HostResult("n", "a", tasks=3),
        HostResult("n", "a"),
    ],
    ids=lambda host: host.status.value,
)
def test_the_result_of_a_host_survives_its_record(host: HostResult) -> None:
    document = json.loads(json.dumps(host_document(host)))
    assert host_document(host_result(document)) == document


def test_no_runs_is_said() -> None:
    done = _pdctl("list")
    assert (done.returncode, done.stdout) == (0, "no runs recorded here\n")


def test_a_run_is_listed_shown_and_diffed() -> None:
    record = _ended(
        _changed(), HostResult("n2", "10.0.0.2", unreachable="No route to host", finished=True), exit_code=3
    )
    listed = _pdctl("list").stdout.splitlines()[1]
    assert " ".join(listed.split()) == f"{record.id} provision ended 3 1 changed, 1 unreachable hosts.ini"
    shown = _pdctl("show", "last")
    assert shown.returncode == 0, shown.stderr
    assert "exit code  3 (incomplete: nodes unreachable or evidence missing)" in shown.stdout
    assert "tags=sysctl" in shown.stdout
    assert "  change: sysctl : set (/etc/x)" in shown.stdout
    assert "  unreachable: No route to host" in shown.stdout
    diff = _pdctl("diff", record.id, "--host", "甲一").stdout.splitlines()
    assert diff == [
        "甲一:",
        "  change: sysctl : set",
        "  --- /etc/x",
        "  +++ /etc/x",
        "  @@ -1 +1 @@",
        "  -a = 1",
        "  +a = 2",
    ]


@pytest.mark.parametrize("arguments", [("list",), ("show", "last"), ("diff", "last")])
def test_the_json_follows_its_schema(arguments: tuple[str, ...]) -> None:
    record = _ended(_changed())
    (_ended(_changed()).folder / "run.json").write_text("{", encoding="utf-8")
    for each in (arguments[1:] and (record.id, "last")) or (None,):
        done = _pdctl(arguments[0], *([each] if each else []), "-o", "json")
        jsonschema.validate(json.loads(done.stdout), json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_a_run_that_was_cut_off_shows_how_far_each_host_had_come() -> None:
    record = RunRecord("provision", {}, {"n1": "10.0.0.1", "n2": "10.0.0.2"})
    changed = {"host": "n1", "role": "sysctl", "task": "set", "res": {"changed": True, "invocation": {}}}
    record.event({"event": "runner_on_ok", "event_data": changed})
    assert find_run(record.id).state is State.RUNNING
    with (record.folder / "events.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"event": "runner_on_ok", "event_da')
    about = json.loads((record.folder / "run.json").read_text())
    (record.folder / "run.json").write_text(json.dumps(about | {"pid": _a_pid_of_the_past()}))
    run = find_run(record.id)
    read = results(run)
    assert run.state is State.CUT_OFF
    assert [(host.name, len(host.changes), host.status) for host in read.hosts] == [
        ("n1", 1, Status.INCOMPLETE),
        ("n2", 0, Status.UNTOUCHED),
    ]
    assert "the rest is not whole" in read.faults[0]


def _a_pid_of_the_past() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(timeout=60)
    return process.pid


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"[" * 100_000, b'{"state": "ended"}', b"\xff\xfe", b'{"a": 1, "b": ' + b"1" * 9_000_000 + b"}"],
    ids=["empty", "torn", "a list", "deep", "without its keys", "not UTF-8", "huge"],
)
def test_a_damaged_record_is_named_and_hides_no_other(content: bytes) -> None:
    whole, damaged = _ended(_changed()), _ended(_changed())
    (damaged.folder / "run.json").write_bytes(content)
    states = {run.id: (run.state, run.fault is None) for run in all_runs()}
    assert states == {whole.id: (State.ENDED, True), damaged.id: (State.DAMAGED, False)}
    done = _pdctl("show", damaged.id)
    assert done.returncode == 3
    assert "not read: run.json: " in done.stdout


def _spoilt(path: Path, how: str) -> None:
    path.unlink()
    match how:
        case "gone":
            pass
        case "a FIFO":
            os.mkfifo(path)
        case "a link":
            path.symlink_to("/etc/hostname")
        case "another kind":
            path.write_text('{"name": 1, "changes": [[]]}', encoding="utf-8")
        case _:
            path.write_text(json.dumps(host_document(_changed()) | {"status": "ok"}), encoding="utf-8")


@pytest.mark.parametrize("how", ["gone", "a FIFO", "a link", "another kind", "contradicts itself"])
def test_the_rest_of_a_record_is_shown_when_one_host_s_part_is_spoilt(how: str) -> None:
    record = _ended(HostResult("n1", "10.0.0.1", finished=True), _changed())
    (spoilt,) = (path for path in (record.folder / "hosts").iterdir() if path.name != "n1.json")
    _spoilt(spoilt, how)
    read = results(find_run(record.id))
    assert [host.name for host in read.hosts] == ["n1"]
    assert read.faults[0].startswith(f"hosts/{spoilt.name}: ")


def _mistaken(record: RunRecord) -> list[tuple[str, ...]]:
    return [("show", "2"), ("show", "../.."), ("show", "20"), ("show", record.id, "--host", "nobody")]


@pytest.mark.parametrize("number", range(4))
def test_a_run_or_host_that_is_none_is_a_usage_error(number: int) -> None:
    record = _ended(_changed())
    _ended(_changed())
    done = _pdctl(*_mistaken(record)[number])
    assert (done.returncode, done.stdout) == (2, "")
    assert "hint: " in done.stderr


def test_the_beginning_of_an_id_is_enough_when_it_means_one() -> None:
    first, _second = _ended(_changed()), _ended(_changed())
    assert find_run(first.id[:-1]).id == first.id
    with pytest.raises(UsageError, match="begins 2 runs"):
        find_run(first.id[:3])


def test_what_is_no_record_is_not_listed() -> None:
    record: Any = _ended(_changed())
    (record.folder.parent / "notes").mkdir()
    assert [run.id for run in all_runs()] == [record.id]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "pdctl.run/9"}, "its schema is `pdctl.run/9`, and this pdctl reads `pdctl.run/1`"),
        ({"basis": [1]}, "of the wrong kind: basis"),
        ({"basis": {"salt": 3}}, "of the wrong kind: basis.salt"),
        ({"resumed": 7}, "of the wrong kind: resumed"),
        ({"started": "never"}, "of the wrong kind: started"),
        ({"options": {"forks": "many", "tags": {}}}, "of the wrong kind: options.tags, options.forks"),
    ],
)
def test_a_record_of_a_newer_pdctl_or_one_edited_by_hand_is_damaged_and_nothing_goes_on_with_it(
    change: dict[str, Any], said: str
) -> None:
    record = _ended(_changed())
    path = record.folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change), encoding="utf-8")
    shown, resumed, listed = _pdctl("show", "last"), _pdctl("resume", "last"), _pdctl("list")
    assert (shown.returncode, said in shown.stdout) == (3, True), shown.stderr
    assert (resumed.returncode, said in resumed.stderr) == (2, True)
    assert (listed.returncode, "damaged" in listed.stdout) == (0, True)
