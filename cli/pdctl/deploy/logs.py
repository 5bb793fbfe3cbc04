"""Logs of the units: bounded on disk, and read back by `pdctl logs`.

A unit writes straight into its file (append mode), so that nothing is lost when the supervisor dies. The supervisor
bounds the file: a full one is copied aside and cut to nothing, which append mode survives.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

MAX_BYTES = 8 << 20
KEEP = 3
_MAX_LINE = 64 << 10


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


def tail(log: Path, lines: int) -> list[str]:
    """The last lines of the log and, where those are too few, of its newest predecessor; [] when there is none."""
    found = _tail_of(log, lines)
    if len(found) < lines:
        found = _tail_of(_numbered(log, 1), lines - len(found)) + found
    return found


def follow(logs: Mapping[str, Path], poll_s: float = 0.2) -> Iterator[tuple[str, str]]:
    """(unit, line) for every line written from now on, in all logs; never ends. A cut log is read from its start."""
    offsets = {unit: _size(path) for unit, path in logs.items()}
    pending = dict.fromkeys(logs, b"")
    while True:
        quiet = True
        for unit, path in logs.items():
            size = _size(path)
            if size < offsets[unit]:
                offsets[unit], pending[unit] = 0, b""
            if size == offsets[unit]:
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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _tail_of(path: Path, lines: int) -> list[str]:
    if lines <= 0:
        return []
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            start, data = end, b""
            while start > 0 and data.count(b"\n") <= lines:
                step = min(1 << 16, start)
                start -= step
                file.seek(start)
                data = file.read(step) + data
    except FileNotFoundError:
        return []
    return data.decode("utf-8", "replace").splitlines()[-lines:]
