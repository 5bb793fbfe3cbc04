"""A file that is written front to back through a mapping, and is there whole under its name or not at all."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable
from pathlib import Path

WINDOW_BYTES = 16 << 20
_SLICE_BYTES = 1 << 20
_MADV_POPULATE_WRITE = 23  # Linux 5.14, asm-generic/mman-common.h


class MappedFile:
    """Room is set aside, by posix_fallocate, before it is mapped: a full disk is an error here, not a dead process.

    Until `keep` the file has another name; a crash leaves that, and `sweep` removes it. Mode 0600.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Raises OSError."""
        self.path = path
        self.size = 0
        self._max_bytes = max_bytes
        self._draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
        self._fd = os.open(self._draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._window: mmap.mmap | None = None
        self._window_at = 0

    def append(self, data: memoryview, show: Callable[[memoryview], None] | None = None) -> None:
        """show: called with each slice while it is in the cache from being copied. Raises OSError: no room for it."""
        if self.size + data.nbytes > self._max_bytes:
            raise OSError(f"the file would have more than {self._max_bytes} bytes")
        while data.nbytes:
            window, at = self._mapped()
            part = data[: min(_SLICE_BYTES, len(window) - at)]
            window[at : at + part.nbytes] = part
            if show is not None:
                show(part)
            self.size += part.nbytes
            data = data[part.nbytes :]

    def patch(self, offset: int, data: bytes) -> None:
        """Overwrites bytes that have been appended."""
        os.pwrite(self._fd, data, offset)

    def _mapped(self) -> tuple[mmap.mmap, int]:
        """The window that holds the next byte, and where in it."""
        if self._window is not None and self.size < self._window_at + len(self._window):
            return self._window, self.size - self._window_at
        self._unmap()
        os.posix_fallocate(self._fd, self.size, WINDOW_BYTES)
        self._window = mmap.mmap(self._fd, WINDOW_BYTES, offset=self.size)
        self._window_at = self.size
        with contextlib.suppress(OSError):  # an older kernel cannot: then each page costs a fault
            self._window.madvise(_MADV_POPULATE_WRITE)
        return self._window, 0

    def _unmap(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None

    def keep(self) -> None:
        """Cuts it to what was written, waits for the disk, and gives it its name. Raises OSError."""
        try:
            self._unmap()
            os.ftruncate(self._fd, self.size)
            os.fsync(self._fd)
            self._draft.replace(self.path)
            sync_directory(self.path.parent)
        except BaseException:
            self._draft.unlink(missing_ok=True)
            raise
        finally:
            os.close(self._fd)

    def drop(self) -> None:
        self._unmap()
        os.close(self._fd)
        self._draft.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sweep(directory: Path) -> None:
    """Removes drafts of processes that are no more."""
    for draft in directory.glob(".*.draft"):
        pid = draft.name.rsplit(".", 2)[1]
        if pid.isdigit() and not Path("/proc", pid).exists():
            draft.unlink(missing_ok=True)
