"""Processes, named so that a reused pid is never mistaken for the one that was meant."""

import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

RUN_VARIABLE = "PDCTL_RUN"
"""Set in the environment of everything that one `pdctl up` starts; whatever carries it afterwards was left over."""


class ProcessId(BaseModel):
    """born: boot id and start tick on Linux, start time elsewhere; two processes never share pid and born."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    born: str

    @property
    def alive(self) -> bool:
        return _born(self.pid) == self.born


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now; None when there is none (a zombie counts as none)."""
    born = _born(pid)
    return None if born is None else ProcessId(pid=pid, born=born)


def end(targets: Iterable[ProcessId], *, grace_s: float) -> list[ProcessId]:
    """SIGTERM, then after grace_s SIGKILL to what is left. Returns what survived even that."""
    left = [target for target in targets if target.alive]
    for signum, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        for target in left:
            signal_to(target, signum)
        left = wait_gone(left, patience_s)
    return left


def wait_gone(targets: Iterable[ProcessId], patience_s: float) -> list[ProcessId]:
    """Waits until all have ended, at most patience_s. Returns those that have not."""
    deadline = time.monotonic() + patience_s
    left = [target for target in targets if target.alive]
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = [target for target in left if target.alive]
    return left


def carrying(*runs: str) -> list[ProcessId]:
    """Every process of this user that was started, directly or not, by one of the runs named."""
    found = []
    for process in psutil.process_iter():
        try:
            mine = process.pid != os.getpid() and process.environ().get(RUN_VARIABLE) in runs
        except (psutil.Error, OSError):
            continue
        if mine and (identity := identify(process.pid)) is not None:
            found.append(identity)
    return found


def ending_in(words: Sequence[str]) -> list[ProcessId]:
    """Every process whose command line ends in these words."""
    found = []
    for process in psutil.process_iter():
        try:
            meant = process.pid != os.getpid() and process.cmdline()[-len(words) :] == list(words)
        except (psutil.Error, OSError):
            continue
        if meant and (identity := identify(process.pid)) is not None:
            found.append(identity)
    return found


def has_open(pid: int, path: Path) -> bool:
    """Whether the process, one of this user's, has the file open. False when that cannot be read."""
    try:
        return any(Path(each.path) == path for each in psutil.Process(pid).open_files())
    except (psutil.Error, OSError):
        return False


def signal_to(target: ProcessId, signum: signal.Signals) -> None:
    """Nothing happens when it has ended."""
    if target.alive:
        try:
            os.kill(target.pid, signum)
        except (ProcessLookupError, PermissionError):
            return


def _born(pid: int) -> str | None:
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        # The command name, in parentheses, may itself hold spaces and parentheses (proc_pid_stat(5)).
        fields = stat.rpartition(")")[2].split()
        state, start_ticks = fields[0], fields[19]
        return None if state in "ZX" else f"{_boot_id()}:{start_ticks}"
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.3f}"
    except psutil.Error:
        return None


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
