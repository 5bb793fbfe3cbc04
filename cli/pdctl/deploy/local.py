"""A deployment on this host, as `pdctl` sees it. A service manager on nodes offers the same interface later."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pdctl.deploy import leash, logs, process, units
from pdctl.deploy.process import ProcessId
from pdctl.deploy.state import ROLES, Record, StateDir, StateUnreadable, Status
from pdctl.deploy.units import STOP_GRACE_S, STOP_ORDER
from pdctl.errors import PdError
from pdctl.paths import state_dir
from pdserve import filelock

# Choosing takes an instant.
_CHOOSE_WAIT_S = 15.0
LOG_NAMES: tuple[str, ...] = (*ROLES, "supervisor", "reference")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is the case now. supervised: whether the supervisor lives; status is its last word either way."""

    record: Record
    status: Status | None
    supervised: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """stopped: `role pid N` in the order they ended. left: what could not be ended."""

    stopped: list[str]
    left: list[ProcessId]


class Supervisor(Protocol):
    """What `up`, `status`, `logs` and `down` need of whatever keeps a deployment's processes running."""

    name: str

    def start(self, record: Record, *, foreground: bool = False) -> None:
        """Writes the record and begins to start the units; returns at once. Progress is in `snapshot`.

        foreground: the deployment ends with this process, however it ends.
        """
        ...

    def snapshot(self) -> Snapshot | None:
        """None when nothing is deployed. Raises StateUnreadable."""
        ...

    def stop(self) -> Stopped:
        """Stops router, prefill and decode, in this order, and looks whether anything is left. Idempotent.

        Raises PdError when something holds the deployment and cannot be named; then nothing may be removed.
        """
        ...

    def forget(self) -> None:
        """Removes what was written about a deployment that has been stopped, except its logs."""
        ...

    def tail(self, unit: str, lines: int, end: int | None = None) -> list[str]:
        """The last lines of a unit's log before byte `end`, oldest first."""
        ...

    def log_ends(self, names: list[str]) -> dict[str, int]:
        """Where each log ends now, in bytes."""
        ...

    def follow(self, ends: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """(unit, line) for what is written after those ends; never ends."""
        ...


class LocalSupervisor:
    """The supervisor that pdctl brings along: one daemon process a deployment, state in the XDG state directory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = StateDir(state_dir() / "deployments" / name)
        self._daemon: subprocess.Popen[bytes] | None = None

    def start(self, record: Record, *, foreground: bool = False) -> None:
        self.state.prepare()
        units.write_configs(self.state, record)
        self.state.write_record(record)
        self.state.write_status(Status(since=time.time()))
        command = [sys.executable, *self._daemon_words()]
        tied = leash.die_with_parent() if foreground and sys.platform == "linux" else None
        descriptor = logs.open_to_append(self.state.log("supervisor"))
        try:
            self._daemon = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env=units.environment(record),
                cwd="/",
                start_new_session=True,
                preexec_fn=tied,
            )
        finally:
            os.close(descriptor)

    def snapshot(self) -> Snapshot | None:
        record = self.state.record()
        if record is None:
            return None
        return Snapshot(record, self.state.status(), self._supervised())

    def stop(self) -> Stopped:
        try:
            snapshot = self.snapshot()
        except StateUnreadable:
            return self._stop_unrecorded()
        if snapshot is None:
            return self._stop_unrecorded()
        status = snapshot.status
        named = {role: unit.process for role, unit in status.units.items() if unit.process} if status else {}
        alive: list[tuple[str, ProcessId]] = [
            (role, named[role]) for role in STOP_ORDER if role in named and named[role].alive
        ]
        if status and status.supervisor and status.supervisor.alive:
            alive.append(("supervisor", status.supervisor))
            # It stops its units in order. What it leaves, or left when it was killed, carries the run's mark.
            process.end([status.supervisor], grace_s=len(STOP_ORDER) * STOP_GRACE_S + 5.0)
        left = process.end(process.carrying(snapshot.record.run), grace_s=STOP_GRACE_S)
        if self._daemon is not None:
            self._daemon.wait()
        return Stopped([f"{role} pid {each.pid}" for role, each in alive if each not in left], left)

    def forget(self) -> None:
        self.state.forget()

    def tail(self, unit: str, lines: int, end: int | None = None) -> list[str]:
        return logs.tail(self.state.log(unit), lines, end)

    def log_ends(self, names: list[str]) -> dict[str, int]:
        return {name: logs.size(self.state.log(name)) for name in names}

    def follow(self, ends: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        return logs.follow({name: self.state.log(name) for name in ends}, ends)

    def _stop_unrecorded(self) -> Stopped:
        """Without the documents: command lines name this directory, and the supervisor's lock names the run."""
        found: list[tuple[str, ProcessId]] = [
            (role, each) for role in STOP_ORDER for each in process.ending_in(units.command(self.state, role)[1:])
        ]
        daemons = process.ending_in(self._daemon_words())
        found += [("supervisor", each) for each in daemons]
        # As in `stop`: it ends its units in order, and what it leaves carries the run's mark.
        process.end(daemons, grace_s=len(STOP_ORDER) * STOP_GRACE_S + 5.0)
        named = [each for _, each in found]
        run = self.state.run_of_lock()
        found += [("process", each) for each in (process.carrying(run) if run else []) if each not in named]
        left = process.end([each for _, each in found], grace_s=STOP_GRACE_S)
        if not left and filelock.is_held(self.state.supervisor_lock):
            raise PdError(
                f"deployment `{self.name}` is not down: its state cannot be read, and something still keeps it",
                detail=f"{self.state.supervisor_lock} is locked; nothing was removed",
                hint=f"`fuser -v {self.state.supervisor_lock}` names the process; end it, then try again",
            )
        return Stopped([f"{role} pid {each.pid}" for role, each in found if each not in left], left)

    def _daemon_words(self) -> list[str]:
        return ["-m", "pdctl.deploy.supervisor", str(self.state.root)]

    def _supervised(self) -> bool:
        if self._daemon is not None and self._daemon.poll() is None:
            return True
        return filelock.is_held(self.state.supervisor_lock)


def deployments() -> list[Path]:
    """State directories of every deployment of this user, by name."""
    root = state_dir() / "deployments"
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


@contextmanager
def promised_ports(but: str) -> Iterator[set[int]]:
    """Ports in the records of this user's other deployments, bound yet or not.

    While it is open no other `up` may choose: write the record before it closes. Raises filelock.LockHeld.
    """
    root = state_dir() / "deployments"
    with filelock.hold(root / "ports.lock", f"pid {os.getpid()}", wait_s=_CHOOSE_WAIT_S):
        promised: set[int] = set()
        for path in deployments():
            with suppress(StateUnreadable, ValueError):
                if path.name != but and (record := StateDir(path).record()) is not None:
                    promised |= record.ports
        yield promised
