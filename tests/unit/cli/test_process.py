import os
import subprocess
import sys
import time
from pathlib import Path

from pdctl.deploy import process
from pdctl.deploy.process import ProcessId, identify


def test_a_reused_pid_is_not_the_process_that_was_meant() -> None:
    me = identify(os.getpid())
    assert me is not None and me.alive
    assert not ProcessId(pid=me.pid, born=me.born + "1").alive


def test_a_pid_recorded_before_a_reboot_is_not_alive() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert not ProcessId(pid=me.pid, born="00000000-0000-0000-0000-000000000000:" + me.born.rpartition(":")[2]).alive


def test_ending_spares_a_process_that_only_has_the_pid() -> None:
    with subprocess.Popen(["sleep", "60"]) as innocent:
        real = identify(innocent.pid)
        assert real is not None
        assert process.end([ProcessId(pid=innocent.pid, born="other")], grace_s=1.0) == []
        assert innocent.poll() is None
        process.end([real], grace_s=5.0)
        assert innocent.wait(5) == -15


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace() -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"on\n"
        real = identify(child.pid)
        assert real is not None
        began = time.monotonic()
        process.end([real], grace_s=0.3)
        assert child.wait(5) == -9 and time.monotonic() - began < 4.0


def test_everything_a_run_started_is_found_by_its_mark_grandchildren_too(tmp_path: Path) -> None:
    environment = {**os.environ, process.RUN_VARIABLE: "run-under-test"}
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], env=environment) as child:
        try:
            deadline = time.monotonic() + 5
            while len(found := process.carrying("run-under-test")) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            assert len(found) == 2 and child.pid in {each.pid for each in found}
        finally:
            assert process.end(process.carrying("run-under-test"), grace_s=5.0) == []
    assert process.carrying("run-under-test") == []
