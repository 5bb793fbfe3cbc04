"""An `up` that fails says what a person can do about it; a `down` reaches an `up` that is still at work."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pdctl.deploy import bringup, plan
from pdctl.deploy.local import LocalSupervisor, Snapshot
from pdctl.deploy.models import ServedModel
from pdctl.deploy.spec import DeploymentSpec
from pdctl.deploy.state import Record, Role, Status
from pdctl.errors import PdError
from pdctl.exit_codes import ExitCode
from pdserve import filelock

DEVICES: dict[Role, tuple[str, str]] = dict.fromkeys(("prefill", "decode", "router"), ("cpu", "cpu"))


@pytest.fixture
def record(tmp_path: Path) -> Record:
    spec = DeploymentSpec.model_validate({"router": {"port": 0}, "timeout_s": 1.0})
    return plan.record(spec, ServedModel(tmp_path, "m"), DEVICES, "test")


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def failed(record: Record, reason: str, log: Mapping[str, str], *, out_of_time: bool = False) -> PdError:
    """What `up` says of a start that the supervisor gave up."""
    local = LocalSupervisor("local")
    local.state.prepare()
    local.state.write_record(record)
    status = Status(phase="failed", since=time.time(), reason=reason, out_of_time=out_of_time)
    local.state.write_status(status)
    for role, line in log.items():
        local.state.log(role).write_text(line + "\n", encoding="utf-8")
    return bringup._failure(local, Snapshot(record, status, supervised=False))


def bind_failed(port: int) -> str:
    reason = f"OSError: [Errno 98] 127.0.0.1:{port}: Address already in use"
    return json.dumps({"event": "start_failed", "reason": reason, "errno": "EADDRINUSE"})


def test_a_port_lost_to_another_up_between_the_look_and_the_bind_is_the_busy_port_error(
    state_home: Path, record: Record
) -> None:
    with socket.create_server(("127.0.0.1", record.port)):
        error = failed(record, "router: exited with status 1", {"router": bind_failed(record.port)})
    text = error.render()
    assert f"port {record.port} on `127.0.0.1` is in use" in text and f"pid {os.getpid()}" in text
    assert "taken while router started" in text and "--port" in text
    assert error.code == ExitCode.PARTLY


def test_an_old_bind_error_in_a_log_is_not_the_reason_of_todays_failure(state_home: Path, record: Record) -> None:
    log = bind_failed(record.port) + '\n{"event": "ready"}'
    text = failed(record, "canary: wrong tokens", {"router": log}).render()
    assert "did not come up: canary: wrong tokens" in text and "in use" not in text.splitlines()[0]


@pytest.mark.parametrize("out_of_time", [True, False])
def test_a_start_that_only_ran_out_of_time_says_how_to_give_it_more(
    state_home: Path, record: Record, out_of_time: bool
) -> None:
    text = failed(record, "prefill: waited 1.0 s", {"prefill": "loading"}, out_of_time=out_of_time).render()
    assert ("it was to be ready within 1 s: `--timeout SECONDS`" in text) == out_of_time


HOLDING = """
import signal, sys, time
from pathlib import Path
from pdctl.deploy.bringup import operator
from pdserve import filelock
signal.signal(signal.SIGTERM, signal.default_int_handler)
with filelock.hold(Path(sys.argv[1]), operator(sys.argv[2])):
    try:
        print("held", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.fixture
def nothing_runs(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = LocalSupervisor("local").state.root
    root.mkdir(parents=True)
    monkeypatch.setattr(bringup, "_STOP_WAIT_S", 0.3)
    yield root / "operator.lock"


def test_down_tells_an_up_that_is_at_work_to_stop_and_waits_for_it(nothing_runs: Path) -> None:
    said: list[str] = []
    with subprocess.Popen([sys.executable, "-c", HOLDING, nothing_runs, "up"], stdout=subprocess.PIPE) as up:
        assert up.stdout is not None and up.stdout.readline()
        assert bringup.take_down("local", said.append) == [f"`pdctl up` pid {up.pid}"]
        assert up.wait(10) == 130
    assert re.fullmatch(rf"telling `pdctl up` of .*, pid {up.pid}, since .* to stop", said[0])


def test_down_leaves_alone_whoever_else_changes_the_deployment(nothing_runs: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDING, nothing_runs, "secret rotate"], stdout=subprocess.PIPE) as up:
        assert up.stdout is not None and up.stdout.readline()
        with pytest.raises(PdError, match="somebody else is changing"):
            bringup.take_down("local")
        assert up.poll() is None
        up.terminate()


def test_a_pid_in_the_lock_that_does_not_hold_it_is_not_signalled(nothing_runs: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        words = f"`pdctl up` of alice on laptop, pid {bystander.pid}, since 09:00"
        with filelock.hold(nothing_runs, words), pytest.raises(PdError, match="somebody else is changing"):
            bringup.take_down("local")
        assert bystander.poll() is None
        bystander.terminate()
