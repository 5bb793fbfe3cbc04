"""Who may take a node, from whom, and what it says to the others: the module itself, on a folder of the test."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.unit.provision.node_module import answer_of, kept_below, node_module

MINE, HIS = "20260101T000000Z-00000a", "20260101T000000Z-00000b"
Call = Callable[..., dict[str, Any]]


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    with kept_below(tmp_path):
        yield node_module("guard", "pdctl_lock")


@pytest.fixture
def call(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> Call:
    return lambda phase, run_id, **more: answer_of(module, capsys, phase=phase, run=run_id, **more)


def _held(module: ModuleType) -> Any:
    return json.loads(module.LOCK.read_text(encoding="utf-8"))["run"] if module.LOCK.exists() else None


ZHANG = {"by": "zhang", "from": "laptop", "command": "provision"}


def test_a_run_takes_a_free_node_and_frees_it(call: Call, module: ModuleType) -> None:
    assert call("begin", MINE, holder=ZHANG)["notices"] == []
    assert _held(module) == MINE
    assert module.LOCK.stat().st_mode & 0o077 == 0
    call("end", MINE)
    assert _held(module) is None


def test_a_held_node_is_refused_and_says_whose_from_where_and_since_when(call: Call, module: ModuleType) -> None:
    call("begin", HIS, holder=ZHANG)
    refused = call("begin", MINE)
    assert refused["failed"] and refused["held_by"]["run"] == HIS
    for part in (HIS, "zhang on laptop", "since 2", "nothing was touched", "--break-lock"):
        assert part in refused["msg"]
    call("end", MINE)
    assert _held(module) == HIS


def test_a_check_takes_nothing_and_tells_who_holds_the_node(call: Call, module: ModuleType) -> None:
    assert call("begin", MINE, check=True)["notices"] == []
    assert not module.LOCK.exists()
    call("begin", HIS, holder=ZHANG)
    (notice,) = call("begin", MINE, check=True)["notices"]
    assert "zhang on laptop" in notice["message"]
    assert _held(module) == HIS


def test_the_same_run_goes_on_with_its_lock(call: Call, module: ModuleType) -> None:
    call("begin", MINE)
    assert call("begin", MINE)["notices"] == []
    assert _held(module) == MINE


@pytest.mark.parametrize("more", [{"dead": [HIS]}, {"force": True}], ids=["a run known to be over", "--break-lock"])
def test_a_lock_that_is_taken_from_another_is_told_and_kept_in_the_lock(
    call: Call, module: ModuleType, more: dict[str, Any]
) -> None:
    call("begin", HIS, holder=ZHANG)
    (notice,) = call("begin", MINE, **more)["notices"]
    assert notice["message"].startswith(f"taken from run {HIS} (provision) of zhang on laptop")
    lock = json.loads(module.LOCK.read_text(encoding="utf-8"))
    assert (lock["run"], lock["taken_from"]["run"]) == (MINE, HIS)


def _write(module: ModuleType, **changes: Any) -> None:
    lock = json.loads(module.LOCK.read_text(encoding="utf-8"))
    module.LOCK.write_text(json.dumps(lock | changes), encoding="utf-8")


@pytest.mark.parametrize("when", ["in this boot", "before a restart"])
def test_a_lock_of_long_ago_is_taken_once_nothing_of_its_run_is_left(call: Call, module: ModuleType, when: str) -> None:
    call("begin", HIS)
    lock = json.loads(module.LOCK.read_text(encoding="utf-8"))
    if when == "in this boot":
        _write(module, uptime=lock["uptime"] - module.ABANDONED_S - 60)
    else:
        _write(module, since=lock["since"] - module.ABANDONED_S - 60, boot="another")
    with _process_of(HIS):
        assert call("begin", MINE)["failed"]
    assert "long ago" in call("begin", MINE)["notices"][0]["message"]


@pytest.mark.parametrize("since", [0, 4_000_000_000], ids=["years behind", "years ahead"])
def test_a_clock_that_is_set_meanwhile_does_not_make_a_lock_old_or_young(
    call: Call, module: ModuleType, since: int
) -> None:
    call("begin", HIS)
    _write(module, since=since)
    assert call("begin", MINE)["failed"]
    lock = json.loads(module.LOCK.read_text(encoding="utf-8"))
    _write(module, uptime=lock["uptime"] - module.ABANDONED_S - 60)
    assert "long ago" in call("begin", MINE)["notices"][0]["message"]


_OF_NO_CLOCK = [b'{"run": "x", "since": %b}' % since for since in (b"NaN", b"1e300", b"-1", b'"now"')]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", *_OF_NO_CLOCK])
def test_a_damaged_lock_is_broken_on_request_only(call: Call, module: ModuleType, content: bytes) -> None:
    module.LOCK.write_bytes(content)
    assert call("begin", MINE)["failed"]
    call("begin", MINE, force=True)
    assert _held(module) == MINE


def test_what_an_earlier_try_still_runs_here_is_waited_for(
    call: Call, module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("begin", MINE)
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    with _process_of(MINE) as process:
        refused = call("begin", MINE)
        assert refused["failed"] and str(process.pid) in refused["msg"]
    assert call("begin", MINE)["notices"] == []


@pytest.mark.skipif(not Path("/proc/self/syscall").exists(), reason="this kernel does not say what a process waits for")
def test_a_module_that_waits_for_the_rest_of_itself_is_ended(call: Call, module: ModuleType) -> None:
    call("begin", MINE)
    with _process_of(MINE, "print(flush=True); import os; os.read(0, 1)") as process:
        assert call("begin", MINE)["notices"] == []
        assert process.wait(timeout=60) != 0


class _process_of:
    """A process that carries the mark of a run."""

    def __init__(self, run_id: str, work: str = "print(flush=True); import time; time.sleep(600)") -> None:
        argv = [sys.executable, "-c", work]
        environment = os.environ | {"PDCTL_RUN": run_id}
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def __enter__(self) -> "subprocess.Popen[bytes]":
        assert self._process.stdout is not None and self._process.stdout.readline() == b"\n"
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate(timeout=60)
