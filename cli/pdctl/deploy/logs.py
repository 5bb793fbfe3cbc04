"""Logs of the units: bounded on disk, and read back by `pdctl logs`.

A unit writes straight into its file (append mode), so that nothing is lost when the supervisor dies. The supervisor
bounds the file: a full one is copied aside and cut to nothing, which append mode survives.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

MAX_BYTES = 8 << 20
KEEP = 3
_MAX_LINE = 64 << 10


def open_to_append(log: Path) -> int:
    """A descriptor for a process to write to, readable by this user only."""
    return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate(log: Path, max_bytes: int = MAX_BYTES, keep: int = KEEP) -> bool:
    """Cuts a log that has reached max_bytes, keeping `keep` predecessors `.1` (newest) and up. True when it did."""
    try:
        if log.stat().st_size < max_bytes:
            return False
    except FileNotFoundError:
        return False
    for number in range(keep - 1, 0, -1):
        older = _numbered(log, number)
        if older.exists():
            older.replace(_numbered(log, number + 1))
    scratch = log.with_name(f".{log.name}.rotating")
    shutil.copyfile(log, scratch)
    scratch.chmod(0o600)
    os.truncate(log, 0)
    scratch.replace(_numbered(log, 1))
    return True


def size(log: Path) -> int:
    """Bytes in the log now; 0 when there is none."""
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def tail(log: Path, lines: int, end: int | None = None) -> list[str]:
    """The last lines before byte `end`, also from the newest predecessor where the log has too few; [] for no log."""
    found = _tail_of(log, lines, end)
    if len(found) < lines:
        found = _tail_of(_numbered(log, 1), lines - len(found), None) + found
    return found


def since(lines: list[str], began: float) -> list[str]:
    """Without what was written before `began` (Unix seconds): an earlier run wrote into the same log."""
    older = [at for at, line in enumerate(lines) if (written := _written(line)) is not None and written < began]
    return lines[older[-1] + 1 :] if older else lines


def by_time(tails: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """(unit, line) of several logs in the order in which they were written; a line without a time stays behind the one
    before it."""
    timed: list[tuple[float, str, str]] = []
    for unit, lines in tails.items():
        at = 0.0
        for line in lines:
            written = _written(line)
            at = at if written is None else max(at, written)
            timed.append((at, unit, line))
    return [(unit, line) for _, unit, line in sorted(timed, key=lambda entry: entry[0])]


def _written(line: str) -> float | None:
    """`ts` of a line that has one; a traceback's lines have none."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    at = event.get("ts") if isinstance(event, dict) else None
    return at if isinstance(at, float | int) else None


def follow(logs: Mapping[str, Path], ends: Mapping[str, int], poll_s: float = 0.2) -> Iterator[tuple[str, str]]:
    """(unit, line) for everything written after byte `ends[unit]`; never ends. A cut log is read from its start."""
    offsets = dict(ends)
    pending = dict.fromkeys(logs, b"")
    while True:
        quiet = True
        for unit, path in logs.items():
            now = size(path)
            if now < offsets[unit]:
                offsets[unit], pending[unit] = 0, b""
            if now == offsets[unit]:
                continue
            quiet = False
            with path.open("rb") as file:
                file.seek(offsets[unit])
                chunk = file.read(1 << 20)
            offsets[unit] += len(chunk)
            *whole, rest = (pending[unit] + chunk).split(b"\n")
            if len(rest) > _MAX_LINE:
                whole, rest = [*whole, rest], b""
            pending[unit] = rest
            for line in whole:
                yield unit, line.decode("utf-8", "replace")
        if quiet:
            time.sleep(poll_s)


def _numbered(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")


def _tail_of(path: Path, lines: int, end: int | None) -> list[str]:
    if lines <= 0:
        return []
    try:
        with path.open("rb") as file:
            start, data = min(file.seek(0, os.SEEK_END), sys.maxsize if end is None else end), b""
            while start > 0 and data.count(b"\n") <= lines:
                step = min(1 << 16, start)
                start -= step
                file.seek(start)
                data = file.read(step) + data
    except FileNotFoundError:
        return []
    return data.decode("utf-8", "replace").splitlines()[-lines:]
