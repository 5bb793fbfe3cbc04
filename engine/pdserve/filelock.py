"""An exclusive lock between processes that dies with its holder, so that nothing has to be cleaned up after a crash."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class LockHeld(Exception):
    """Another process holds the lock. holder: what that process wrote into it, possibly empty."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is locked by {holder or 'another process'}")
        self.path = path
        self.holder = holder


@contextmanager
def hold(
    path: Path, holder: str, *, wait_s: float = 0.0, on_wait: Callable[[str], None] = lambda holder: None
) -> Iterator[int]:
    """Holds `path` exclusively and yields its descriptor; `holder` is what others are told meanwhile.

    Waits at most wait_s seconds and calls on_wait once, with the present holder, if it has to.
    Raises LockHeld. The file stays: removing it would let two processes hold two files of one name.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, path, time.monotonic() + wait_s, on_wait)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether some living process holds the lock."""
    return holder(path) is not None


def holder(path: Path) -> str | None:
    """What the process that holds the lock now says of itself; None when nobody holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _said(descriptor)
    finally:
        os.close(descriptor)
    return None


def _take(descriptor: int, path: Path, deadline: float, on_wait: Callable[[str], None]) -> None:
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            present = _said(descriptor)
            if time.monotonic() >= deadline:
                raise LockHeld(path, present) from None
        if not told:
            on_wait(present)
            told = True
        time.sleep(0.1)


def _said(descriptor: int) -> str:
    return os.pread(descriptor, 1024, 0).decode(errors="replace")
