"""Reads the records of runs back. A record may be damaged, foreign or huge: every file is bounded, every fault is named."""

import json
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from pdctl.errors import UsageError
from pdctl.provisioning.document import host_result
from pdctl.provisioning.impact import impact_by_role
from pdctl.provisioning.outcome import Fold, HostResult
from pdctl.provisioning.record import SCHEMA, file_of, runs_dir

RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")
_MAX_ABOUT_BYTES = 8 << 20
_MAX_HOST_BYTES = 64 << 20
_MAX_EVENT_BYTES = 16 << 20
_MAX_EVENTS_BYTES = 1 << 30


class State(StrEnum):
    """CUT_OFF: the process that wrote the record is gone and did not say how it ended. DAMAGED: run.json is not readable."""

    RUNNING = "running"
    ENDED = "ended"
    CUT_OFF = "cut off"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Run:
    """One record. about: what run.json holds, empty when damaged; fault says why."""

    id: str
    folder: Path
    state: State
    about: Mapping[str, Any]
    fault: str | None = None

    @property
    def options(self) -> Mapping[str, Any]:
        return self.about.get("options") or {}

    @property
    def hosts(self) -> Mapping[str, str]:
        """Name -> address of all that the run was about."""
        return self.about.get("hosts") or {}


@dataclass(frozen=True, slots=True)
class Results:
    """faults: `FILE: why` of everything that could not be read."""

    hosts: tuple[HostResult, ...]
    faults: tuple[str, ...]


def all_runs(most: int | None = None) -> list[Run]:
    """The newest first, at most so many. What is no record is not listed."""
    folder = runs_dir()
    names = sorted((each.name for each in folder.iterdir()), reverse=True) if folder.is_dir() else []
    return [_run(folder / name) for name in [name for name in names if RUN_ID.fullmatch(name)][:most]]


def over(runs: Iterable[Run]) -> list[Run]:
    """Those of this machine that have ended or were killed, however it came."""
    return [run for run in runs if run.state in (State.ENDED, State.CUT_OFF)]


def find_run(asked: str) -> Run:
    """asked: an id, the beginning of one, or `last`.

    Raises:
        UsageError: no record, or more than one, is meant by it.
    """
    folder = runs_dir()
    names = sorted(each.name for each in folder.iterdir() if RUN_ID.fullmatch(each.name)) if folder.is_dir() else []
    found = names[-1:] if asked == "last" else [name for name in names if name.startswith(asked)]
    if len(found) == 1:
        return _run(folder / found[0])
    if found:
        raise UsageError(
            f"`{asked}` begins {len(found)} runs", detail="\n".join(found[-8:]), hint="give more of the id"
        )
    if asked == "last":
        raise UsageError("no runs are recorded on this machine", detail=f"the records would be in {folder}")
    raise UsageError(f"no run `{asked}`", detail=f"the records are in {folder}", hint="`pdctl runs list` names them")


def results(run: Run) -> Results:
    """How each host ended; of a run that did not end, how far each host had come by its events."""
    if run.state is State.DAMAGED:
        return Results((), (run.fault or "",))
    if run.state is State.ENDED:
        return _written(run)
    faults: list[str] = []
    hosts = [(name, str(address)) for name, address in run.hosts.items()]
    fold = Fold(hosts, impact_by_role(), run.options.get("connect_timeout_s"))
    try:
        for event in _events(run.folder / "events.jsonl", faults):
            fold.step(event)
    except (AttributeError, TypeError, KeyError, IndexError) as error:
        faults.append(f"events.jsonl: an event that is none: {error}")
    return Results(tuple(fold.hosts.values()), tuple(faults))


def _run(folder: Path) -> Run:
    try:
        about = _json(folder / "run.json", _MAX_ABOUT_BYTES)
        if about.get("schema") != SCHEMA:
            raise ValueError(f"its schema is `{about.get('schema')}`, and this pdctl reads `{SCHEMA}`")
        if faults := _misshapen(about):
            raise ValueError(f"missing or of the wrong kind: {', '.join(faults)}")
    except (OSError, ValueError) as error:
        return Run(folder.name, folder, State.DAMAGED, {}, f"run.json: {_why(error)}")
    state = State.ENDED if about["state"] == "ended" else State.RUNNING if _alive(about) else State.CUT_OFF
    return Run(folder.name, folder, state, about)


_SHAPE: Mapping[str, type] = {
    "command": str, "options": dict, "hosts": dict, "controller": str, "user": str, "pid": int, "started": str,
    "state": str, "summary": dict,
}  # fmt: skip
# May be absent or null.
_MORE: Mapping[str, type] = {"basis": dict, "resumed": list, "exit_code": int, "ended": str}
_OPTIONS: Mapping[str, type] = {
    "inventory": str, "playbook": str, "limit": str, "tags": list, "skip_tags": list, "extra_vars": list, "forks": int,
    "connect_timeout_s": int, "canary": int, "serial": str, "apply_plan": str,
}  # fmt: skip
_BASIS: Mapping[str, type] = {"salt": str, "fingerprint": dict, "variables": dict}


def _misshapen(about: Mapping[str, Any]) -> list[str]:
    """The keys whose value is not what this pdctl writes there."""
    wrong = [key for key, kind in _SHAPE.items() if not isinstance(about.get(key), kind)]
    wrong += _of_another_kind(about, _MORE)
    if not wrong:
        wrong += [f"options.{key}" for key in _of_another_kind(about["options"], _OPTIONS)]
        wrong += [f"basis.{key}" for key in _of_another_kind(about.get("basis") or {}, _BASIS)]
        try:
            datetime.fromisoformat(about["started"])
        except ValueError:
            wrong.append("started")
    return wrong


def _of_another_kind(values: Mapping[str, Any], kinds: Mapping[str, type]) -> list[str]:
    return [key for key, kind in kinds.items() if not isinstance(values.get(key), (kind, type(None)))]


def _alive(about: Mapping[str, Any]) -> bool:
    """On another machine nobody can tell; there it counts as running. A number may have been given to a later process."""
    if about["controller"] != socket.gethostname():
        return True
    try:
        begun = datetime.fromisoformat([about["started"], *about.get("resumed", ())][-1])
        return psutil.Process(about["pid"]).create_time() <= begun.timestamp() + 1
    except (psutil.Error, ValueError, TypeError, OverflowError):
        return False


def _written(run: Run) -> Results:
    hosts, faults = [], []
    for name in run.hosts:
        path = run.folder / "hosts" / file_of(name)
        try:
            hosts.append(host_result(_json(path, _MAX_HOST_BYTES)))
        except (OSError, ValueError) as error:
            faults.append(f"hosts/{path.name}: {_why(error)}")
    return Results(tuple(hosts), tuple(faults))


def _events(path: Path, faults: list[str]) -> Iterator[Mapping[str, Any]]:
    """Up to the first line that is not whole: what was being written when the run was cut off."""
    read = 0
    try:
        with _opened(path) as stream:
            while line := stream.readline(_MAX_EVENT_BYTES):
                read += len(line)
                if not line.endswith(b"\n") or read > _MAX_EVENTS_BYTES:
                    faults.append(f"{path.name}: read up to byte {read - len(line)}; the rest is not whole or too much")
                    return
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event
    except (OSError, ValueError, RecursionError) as error:
        faults.append(f"{path.name}: {_why(error)}")


def _json(path: Path, limit: int) -> dict[str, Any]:
    with _opened(path) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"larger than {limit} bytes")
    try:
        loaded = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {_why(error)}") from None
    if not isinstance(loaded, dict):
        raise ValueError("no JSON object")
    return loaded


def _opened(path: Path) -> Any:
    """Neither through a link nor waiting for the writer of a FIFO."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return os.fdopen(descriptor, "rb")


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
