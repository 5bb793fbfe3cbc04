"""Memory that two processes of one host see: a memfd, sealed so that neither can shrink it under the other.

It has no name, so nothing of it is left anywhere when its last process has gone, however that went.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os

HUGE_PAGE_BYTES = 2 << 20

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
COPY_ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=524288"}
"""For a process that writes into a segment: copies of half a MiB and more go past the cache. By itself glibc takes a
threshold beyond any frame, and reads each line of the target before it overwrites it. It can only be set at the start.
"""

_MADV_POPULATE_WRITE = 23  # Linux 5.14, asm-generic/mman-common.h
_POPULATE_BYTES = 4 << 30  # about a second's work; beyond it the first transfer through each page pays a fault


class Segment:
    """A mapping of `size` bytes, all of them backed by memory. fd: for another process to map."""

    def __init__(self, fd: int, size: int, page_bytes: int) -> None:
        """Takes over the descriptor. Raises OSError when it cannot be mapped."""
        self.fd = fd
        self.size = size
        self.page_bytes = page_bytes
        """Of the pages that were asked for."""
        try:
            self._map = mmap.mmap(fd, size)
        except BaseException:
            os.close(fd)
            raise
        self.view = memoryview(self._map)
        # A child that inherits the mapping would hold it longer than its parent is there to answer for it.
        with contextlib.suppress(OSError):
            self._map.madvise(mmap.MADV_DONTFORK)
        with contextlib.suppress(OSError):  # an older kernel cannot
            self._map.madvise(_MADV_POPULATE_WRITE, 0, min(size, _POPULATE_BYTES))

    @classmethod
    def create(cls, size: int) -> Segment:
        """On huge pages where enough are set aside, else on ordinary ones. Raises OSError when memory is short."""
        with contextlib.suppress(OSError):
            whole = -(-size // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
            return cls._create(whole, HUGE_PAGE_BYTES, os.MFD_HUGETLB | os.MFD_HUGE_2MB)
        return cls._create(size, mmap.PAGESIZE, 0)

    @classmethod
    def _create(cls, size: int, page_bytes: int, flags: int) -> Segment:
        fd = os.memfd_create("pdctl-kv", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
        try:
            os.posix_fallocate(fd, 0, size)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        except BaseException:
            os.close(fd)
            raise
        return cls(fd, size, page_bytes)

    @classmethod
    def attach(cls, fd: int) -> Segment:
        """Another process's segment. Takes over the descriptor.

        Raises OSError, or ValueError if it could be shrunk: touching what is gone would kill this process.
        """
        try:
            seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
            size = os.fstat(fd).st_size
        except BaseException:
            os.close(fd)
            raise
        if seals & _SEALS != _SEALS:
            os.close(fd)
            raise ValueError("the peer's memory is not sealed against shrinking")
        return cls(fd, size, mmap.PAGESIZE)

    def close(self) -> None:
        """Gives the descriptor back, and the mapping as soon as no view of it is left."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        self.view.release()
        with contextlib.suppress(BufferError):
            self._map.close()
