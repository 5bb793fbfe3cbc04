import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdctl.deploy.bringup import take_down
from pdctl.deploy.local import LocalSupervisor
from pdctl.errors import PdError
from pdctl.exit_codes import ExitCode

# Holds the lock and has the command line of a supervisor; its child has left the family but carries the mark.
_SUPERVISOR = """
import fcntl, os, subprocess, sys, time
lock = open(sys.argv[3] + "/supervisor.lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("run", "run-unreadable", end="", file=lock, flush=True)
child = subprocess.Popen(["sleep", "60"], env={**os.environ, "PDCTL_RUN": "run-unreadable"}, start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSupervisor]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    local = LocalSupervisor("local")
    local.state.prepare()
    yield local


@pytest.mark.parametrize("record", ['{"from": "a newer version"}', "\0 torn", None])
def test_down_ends_a_deployment_whose_record_cannot_be_read(deployment: LocalSupervisor, record: str | None) -> None:
    root = deployment.state.root
    if record is not None:
        (root / "record.json").write_text(record, encoding="utf-8")
    command = [sys.executable, "-c", _SUPERVISOR, "-m", "pdctl.deploy.supervisor", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        child = int(daemon.stdout.readline())
        stopped = take_down("local")
        assert daemon.wait(5) == -15
    assert set(stopped) == {f"supervisor pid {daemon.pid}", f"process pid {child}"}
    assert not (root / "record.json").exists()


def test_down_removes_nothing_while_an_unknown_process_keeps_the_deployment(deployment: LocalSupervisor) -> None:
    state = deployment.state
    (state.root / "record.json").write_text("{}", encoding="utf-8")
    with state.supervisor_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(PdError, match="not down") as caught:
            take_down("local")
    assert caught.value.code is ExitCode.FAILED
    assert (state.root / "record.json").exists() and state.secret.exists()
