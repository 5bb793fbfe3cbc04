import os
import time
from pathlib import Path

import pytest

from pdctl.deploy import report
from pdctl.deploy.local import Snapshot
from pdctl.deploy.process import ProcessId, identify
from pdctl.deploy.restart import RestartPolicy
from pdctl.deploy.state import (
    ROLES,
    CanaryStatus,
    Phase,
    Record,
    StateDir,
    StateUnreadable,
    Status,
    UnitRecord,
    UnitState,
    UnitStatus,
)
from pdctl.exit_codes import ExitCode
from pdctl.render.status import table

NOW = time.time()


def _record() -> Record:
    units = [
        UnitRecord(role=role, name=role, gpu_kind="cpu", device="cpu", threads=1, url=f"http://127.0.0.1:{8000 + n}")
        for n, role in enumerate(ROLES)
    ]
    return Record(
        name="local", run="r", created=NOW, by="test", model=Path("/m"), model_name="m", dtype="float32",
        host="127.0.0.1", port=8002, kv_port=7000, units=units, chunk_tokens=256, block_tokens=16,
        restart=RestartPolicy(), timeout_s=60.0,
    )  # fmt: skip


def _status(phase: Phase, state: UnitState = "ready", *, alive: bool = True) -> Status:
    me = identify(os.getpid())
    assert me is not None
    gone = ProcessId(pid=me.pid, born="another boot")
    units = {role: UnitStatus(state=state, process=me if alive else gone, since=NOW - 90) for role in ROLES}
    canary = CanaryStatus(at=NOW, passed=True, tokens=305, kv_bytes=7_027_200, seconds=1.5)
    return Status(supervisor=me, phase=phase, since=NOW - 60, units=units, canary=canary)


def test_a_ready_deployment_exits_0_and_says_what_crossed() -> None:
    document = report.view("local", Snapshot(_record(), _status("ready"), supervised=True), NOW)
    assert report.exit_code(document) == ExitCode.DONE
    assert [unit["role"] for unit in document["units"]] == list(ROLES)
    assert {unit["uptime_s"] for unit in document["units"]} == {90.0}
    assert "canary    passed" in table(document) and "1m30s" in table(document)


def test_nothing_deployed_is_incomplete_not_healthy() -> None:
    document = report.view("local", None, NOW)
    assert (document["phase"], report.exit_code(document)) == ("absent", ExitCode.INCOMPLETE)
    assert "nothing is deployed" in table(document)


@pytest.mark.parametrize("phase", ["ready", "degraded", "starting", "stopping"])
def test_a_dead_supervisor_is_never_reported_as_ready(phase: Phase) -> None:
    """Also the state of a machine that was restarted: every pid in it now belongs to somebody else."""
    document = report.view("local", Snapshot(_record(), _status(phase, alive=False), supervised=False), NOW)
    assert document["phase"] == "lost" and report.exit_code(document) == ExitCode.FINDINGS
    assert {unit["state"] for unit in document["units"]} == {"dead"}
    assert {unit["pid"] for unit in document["units"]} == {None}


def test_a_unit_that_outlived_its_supervisor_is_shown_as_such() -> None:
    document = report.view("local", Snapshot(_record(), _status("ready"), supervised=False), NOW)
    assert {unit["state"] for unit in document["units"]} == {"unsupervised"}
    assert "pdctl down" in table(document)


def test_a_failed_start_keeps_its_reason_after_the_supervisor_has_ended() -> None:
    status = _status("failed", "stopped", alive=False).model_copy(update={"reason": "prefill: out of memory"})
    document = report.view("local", Snapshot(_record(), status, supervised=False), NOW)
    assert (document["phase"], document["reason"]) == ("failed", "prefill: out of memory")
    assert report.exit_code(document) == ExitCode.FINDINGS


def test_a_record_and_a_status_come_back_as_they_were_written_and_only_the_owner_may_read_them(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "deployments" / "local")
    state.prepare()
    record, status = _record(), _status("ready")
    state.write_record(record)
    state.write_status(status)
    assert (state.record(), state.status()) == (record, status)
    assert {path.stat().st_mode & 0o077 for path in state.root.rglob("*")} == {0}


def test_a_state_file_of_another_version_is_unreadable_not_a_default(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "d")
    state.prepare()
    (state.root / "record.json").write_text('{"schema": "pdctl.deployment/9"}', encoding="utf-8")
    with pytest.raises(StateUnreadable, match=r"record\.json"):
        state.record()
