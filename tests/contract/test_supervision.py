"""What a supervised unit is promised, whatever it runs: restarts, a limit, a clean end, and never an orphan."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pdctl.deploy import process
from pdctl.deploy.keeper import Keeper, UnitBroken
from pdctl.deploy.process import ProcessId, identify
from pdctl.deploy.restart import RestartPolicy
from pdctl.deploy.unit import Unit

POLICY = RestartPolicy(first_delay_s=0.05, max_delay_s=0.4, limit=3, window_s=60.0)
PYTHON = sys.executable
DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open(r'{flag}', 'w').close(); time.sleep(60)"
)


async def _ready() -> str | None:
    return None


def _keeper(
    log: Path,
    command: list[str],
    probe: Callable[[], Awaitable[str | None]] = _ready,
    *,
    policy: RestartPolicy = POLICY,
    answer_within_s: float = 60.0,
    run: str = "supervision-test",
    on_ready: Callable[[], None] = lambda: None,
) -> Keeper:
    unit = Unit(command, {**os.environ, process.RUN_VARIABLE: run}, log)
    return Keeper(
        unit,
        probe,
        policy,
        ready_within_s=5.0,
        ask_every_s=0.05,
        answer_within_s=answer_within_s,
        on_change=lambda: None,
        on_ready=on_ready,
    )


async def _until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.02)


def test_a_killed_unit_comes_back_as_another_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        keeper = _keeper(tmp_path / "log", ["sleep", "60"])
        await keeper.launch()
        await keeper.become_ready(5.0)
        first = keeper.status.process
        assert first is not None
        keeping = asyncio.create_task(keeper.keep())
        os.kill(first.pid, signal.SIGKILL)
        await _until(lambda: keeper.status.restarts == 1 and keeper.status.state == "ready")
        assert keeper.status.process is not None and keeper.status.process != first
        keeping.cancel()
        await keeper.stop(grace_s=2.0)
        assert keeper.status.state == "stopped"

    asyncio.run(scenario())


def test_a_unit_that_keeps_dying_is_given_up_with_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def scenario() -> Keeper:
        keeper = _keeper(log, ["sh", "-c", "echo no memory >&2; exit 7"])
        await keeper.launch()
        await _until(lambda: keeper.has_ended)
        began = time.monotonic()
        await asyncio.wait_for(keeper.keep(), 10.0)
        # Three restarts, at once and after 0.05 and 0.1 s at least: it backed off, and it did end.
        assert time.monotonic() - began >= 0.15
        return keeper

    keeper = asyncio.run(scenario())
    assert (keeper.status.state, keeper.status.restarts) == ("failed", 3)
    assert "exited with status 7" in str(keeper.status.reason) and "gave up after 3 restarts" in str(
        keeper.status.reason
    )
    assert log.read_text(encoding="utf-8").count("no memory") == 4


def test_a_unit_that_lives_but_stops_answering_is_replaced(tmp_path: Path) -> None:
    async def scenario() -> None:
        stuck: set[ProcessId] = set()
        keeper: Keeper

        async def probe() -> str | None:
            return "does not answer in time" if keeper.status.process in stuck else None

        keeper = _keeper(tmp_path / "log", ["sleep", "60"], probe, answer_within_s=0.3)
        await keeper.launch()
        await keeper.become_ready(5.0)
        first = keeper.status.process
        assert first is not None
        keeping = asyncio.create_task(keeper.keep())
        stuck.add(first)
        await _until(lambda: keeper.status.state == "ready" and keeper.status.restarts == 1)
        assert not first.alive
        keeping.cancel()
        await keeper.stop(grace_s=2.0)

    asyncio.run(scenario())


def test_a_unit_that_is_silent_for_a_moment_is_shown_as_not_answering_and_asked_for_a_canary_when_it_is_back(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        silent, proofs = False, 0

        async def probe() -> str | None:
            return "does not answer in time" if silent else None

        def prove() -> None:
            nonlocal proofs
            proofs += 1

        keeper = _keeper(tmp_path / "log", ["sleep", "60"], probe, on_ready=prove)
        await keeper.launch()
        await keeper.become_ready(5.0)
        keeping = asyncio.create_task(keeper.keep())
        silent = True
        await _until(lambda: keeper.status.state == "not-answering")
        assert keeper.status.reason is not None and "not answering (does not answer in time)" in keeper.status.reason
        silent = False
        await _until(lambda: keeper.status.state == "ready")
        assert (keeper.status.restarts, keeper.status.reason, proofs) == (0, None, 2)
        keeping.cancel()
        await keeper.stop(grace_s=2.0)

    asyncio.run(scenario())


def test_a_unit_that_never_becomes_ready_is_ended_and_says_what_it_was_doing(tmp_path: Path) -> None:
    async def loading() -> str | None:
        return "loading"

    async def scenario() -> None:
        keeper = _keeper(tmp_path / "log", ["sleep", "60"], loading)
        await keeper.launch()
        with pytest.raises(UnitBroken, match="loading"):
            await keeper.become_ready(0.3)
        assert keeper.has_ended

    asyncio.run(scenario())


def test_a_command_that_does_not_exist_is_an_error_not_a_crash(tmp_path: Path) -> None:
    with pytest.raises(UnitBroken, match="could not be started"):
        asyncio.run(_keeper(tmp_path / "log", ["/nonexistent/engine"]).launch())


def test_stopping_takes_the_whole_group_and_kills_what_ignores_sigterm(tmp_path: Path) -> None:
    flag = tmp_path / "deaf"
    script = f'{PYTHON} -c "{DEAF.format(flag=flag)}" & wait'

    async def scenario() -> None:
        keeper = _keeper(tmp_path / "log", ["sh", "-c", script], run="supervision-group")
        await keeper.launch()
        await _until(flag.exists)
        assert len(process.carrying("supervision-group")) == 2
        await keeper.stop(grace_s=0.5)

    asyncio.run(scenario())
    assert process.wait_gone(process.carrying("supervision-group"), 3.0) == []


SUPERVISED = """
import asyncio, os, sys
from pathlib import Path
from pdctl.deploy.unit import Unit
async def main():
    unit = Unit(["sleep", "60"], dict(os.environ), Path(sys.argv[1]))
    print((await unit.start()).model_dump_json(), flush=True)
    await unit.wait()
asyncio.run(main())
"""


def test_no_unit_outlives_a_supervisor_killed_with_sigkill(tmp_path: Path) -> None:
    parent = subprocess.Popen([PYTHON, "-c", SUPERVISED, str(tmp_path / "log")], stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        child = ProcessId.model_validate_json(parent.stdout.readline())
        assert child.alive
        parent.kill()
    assert process.wait_gone([child], 3.0) == []


def test_the_leash_for_systems_without_parent_death_signals_ends_the_child_at_end_of_file(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    pid_file = tmp_path / "pid"
    command = [PYTHON, "-m", "pdctl.deploy.leash", str(reading), "sh", "-c", f"echo $$ > {pid_file}; exec sleep 60"]
    leash = subprocess.Popen(command, pass_fds=(reading,), start_new_session=True)
    os.close(reading)
    try:
        deadline = time.monotonic() + 10
        while not (pid_file.exists() and pid_file.read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.02)
        child = identify(int(pid_file.read_text()))
        assert child is not None
    finally:
        os.close(writing)
    leash.wait(10)
    assert process.wait_gone([child], 3.0) == []


def test_the_leash_passes_the_exit_status_on() -> None:
    reading, writing = os.pipe()
    command = [PYTHON, "-m", "pdctl.deploy.leash", str(reading), "sh", "-c", "exit 7"]
    done = subprocess.run(command, pass_fds=(reading,), start_new_session=True, timeout=20)
    os.close(reading)
    os.close(writing)
    assert done.returncode == 7
