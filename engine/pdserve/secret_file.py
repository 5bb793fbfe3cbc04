"""The deployment's secret: one file of mode 0600, read again whenever it has changed.

    <64 hex digits>                      the one to use
    <64 hex digits> until <seconds>      taken too, until then (Unix time)

A rotation puts a new line first and gives the old one an end (`rotated`). Every process that reads the file takes both
meanwhile, so nothing has to happen at once.
"""

from __future__ import annotations

import contextlib
import hmac
import math
import os
import re
import stat
import threading
import time
from pathlib import Path

from pdwire import SECRET_BYTES, Secret

CONTROL_HEADER = "x-pdctl-control"
MAX_LINES = 4
_MAX_BYTES = 1024
_LINE = re.compile(rf"([0-9a-f]{{{2 * SECRET_BYTES}}})(?: until (\d{{1,12}}))?")
_CONTROL = "control http"


class TooManySecrets(ValueError):
    """There are as many as may be taken at a time."""


class SecretFile:
    """Of a running process. Thread-safe. A file that has become unreadable leaves what was read last, less what has run out since."""

    def __init__(self, path: Path) -> None:
        """Raises OSError when it cannot be read, ValueError when it is malformed or others may read it."""
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._lines: list[tuple[Secret, float]] = []
        self._read()

    @classmethod
    def open(cls, path: Path | None) -> SecretFile | None:
        return None if path is None else cls(path)

    @property
    def secrets(self) -> list[Secret]:
        """Those that are taken now, the one to use first. Never empty."""
        with self._lock:
            with contextlib.suppress(OSError, ValueError):
                self._read()
            now = time.time()
            first = self._lines[0][0]
            return [first, *(secret for secret, until in self._lines[1:] if now < until)]

    @property
    def control_token(self) -> str:
        """What a caller of the control HTTP shows."""
        return _token(self.secrets[0])

    def takes_control_token(self, shown: str) -> bool:
        """Each comparison takes the same time, whatever is shown."""
        return any(hmac.compare_digest(shown.encode(), _token(secret).encode()) for secret in self.secrets)

    def _read(self) -> None:
        with self._path.open("rb") as file:
            info = os.fstat(file.fileno())
            seen = info.st_mtime_ns, info.st_ino, info.st_size
            if seen == self._seen:
                return
            if not stat.S_ISREG(info.st_mode):
                raise ValueError(f"{self._path}: is not a regular file")
            if stat.S_IMODE(info.st_mode) & 0o077:
                raise ValueError(f"{self._path}: must be of mode 0600")
            text = file.read(_MAX_BYTES + 1)
        self._lines = _parse(self._path, text)
        self._seen = seen


def rotated(text: str, new: Secret, now: float, window_s: float) -> str:
    """The file's text with a new secret to use; those until now are taken for window_s more, or to their own end. Pure.

    Raises TooManySecrets rather than drop one before the end that it was promised.
    """
    promised = [(secret, min(until, now + window_s)) for secret, until in _parse(Path("secret"), text.encode())]
    old = [(secret, until) for secret, until in promised if now < until]
    if len(old) >= MAX_LINES:
        wait = math.ceil(min(until for _, until in old) - now)
        raise TooManySecrets(f"{len(old)} are taken already, one of them for {wait} s more")
    lines = [new.value.hex(), *(f"{secret.value.hex()} until {math.ceil(until)}" for secret, until in old)]
    return "\n".join(lines) + "\n"


def _parse(path: Path, text: bytes) -> list[tuple[Secret, float]]:
    """Its messages never hold a part of a secret."""
    lines = text.decode("ascii", errors="replace").splitlines() if len(text) <= _MAX_BYTES else []
    if not 1 <= len(lines) <= MAX_LINES:
        raise ValueError(f"{path}: must have 1 to {MAX_LINES} lines")
    found = [_LINE.fullmatch(line) for line in lines]
    if None in found:
        raise ValueError(f"{path}: line {found.index(None) + 1} is not a secret: {2 * SECRET_BYTES} hex digits")
    secrets = [
        (Secret(bytes.fromhex(match[1])), float(match[2]) if match[2] else float("inf")) for match in found if match
    ]
    if secrets[0][1] != float("inf"):
        raise ValueError(f"{path}: the first secret must have no end")
    return secrets


def _token(secret: Secret) -> str:
    return secret.derive(_CONTROL).hex()
