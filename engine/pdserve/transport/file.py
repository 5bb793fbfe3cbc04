"""KV by files: hand-over between processes that never meet, and replay of what was once sent.

A spool is a directory, `file:///DIR`. Each request is one file in it: the frames that prefill says, from HELLO to BYE.
A file appears when its request is finished, whole and on the disk; the listener takes files in the order in which they
appeared, puts them through the same Connection and the same checks as a stream, and removes them. One that it cannot
take stays beside them, its name ending in `.refused`, and is logged.

Nobody answers: prefill learns that a request is in the spool, not what became of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from pdserve.transport.base import KvListener, KvSender, KvSink, TransferFailed
from pdserve.transport.file_receive import Replay, ReplayFailed, Stopped, log, opened
from pdserve.transport.file_send import FileSender
from pdserve.transport.mapped_file import MappedFile, sweep
from pdwire import (
    MAX_CONTROL_BYTES,
    AbortCode,
    CompatRecord,
    Connection,
    Conversion,
    Limits,
    RemoteProtocolError,
    Role,
    seal,
)

SCHEME: Final = "file"
SUFFIX = ".kv"
DECODE_HELLO = "decode.hello"
"""What decode says of itself, left where every prefill reads it."""

POLL_S = 0.05
MAX_FILE_BYTES = 64 << 30


class FileTransport:
    """limits: what this end allows. can: what the engines convert. max_file_bytes: of one request."""

    name = SCHEME

    def __init__(
        self,
        spool: Path,
        limits: Limits | None = None,
        *,
        can: Set[Conversion] = frozenset(),
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        # Nobody answers a file, so nobody can give credit for one: its size is bounded instead.
        self._limits = replace(limits or Limits(), credit_bytes=1 << 48)
        self._spool = spool
        self._can = can
        self._max_file_bytes = max_file_bytes

    def listen(self, host: str, port: int, record: CompatRecord, sink: KvSink) -> KvListener:
        """host, port: a directory has neither. Raises OSError when the spool cannot be used, or another decode has it."""
        return FileListener(self._spool, record, sink, self._limits, self._can, self._max_file_bytes)

    def connect(self, address: str, record: CompatRecord, *, deadline: float) -> KvSender:
        url = urlsplit(address)
        if url.scheme != SCHEME or url.netloc or not url.path.startswith("/"):
            raise TransferFailed(f"address {address!r}: not of the form file:///DIRECTORY", AbortCode.PROTOCOL)
        spool = Path(unquote(url.path))
        connection = Connection(Role.PREFILL, record, self._limits, can=self._can)
        connection.send(seal(connection.hello))
        try:
            connection.feed(_hello_of_decode(spool, record, self._limits, self._can))
            if connection.next_event() is None:
                raise RemoteProtocolError("it ends in the middle of a HELLO")
        except OSError as error:
            raise TransferFailed(f"spool {spool}: {error}") from None
        except (RemoteProtocolError, ReplayFailed) as error:
            raise TransferFailed(f"{spool / DECODE_HELLO}: {error}", AbortCode.PROTOCOL) from None
        if time.monotonic() > deadline:
            raise TransferFailed(f"spool {spool}: deadline passed before decode's HELLO was read", AbortCode.DEADLINE)
        return FileSender(spool, connection, max_file_bytes=self._max_file_bytes)


class FileListener:
    """Takes what appears in a spool until closed."""

    def __init__(
        self,
        spool: Path,
        record: CompatRecord,
        sink: KvSink,
        limits: Limits,
        can: Set[Conversion],
        max_file_bytes: int,
    ) -> None:
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._spool = spool
        self._lock = os.open(spool, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sweep(spool)
            _announce(spool, Connection(Role.DECODE, record, limits, can=can))
        except BaseException:
            os.close(self._lock)
            raise
        self._connection: Callable[[], Connection] = lambda: Connection(Role.DECODE, record, limits, can=can)
        self._sink = sink
        self._max_file_bytes = max_file_bytes
        self._closing = threading.Event()
        self._replay: Replay | None = None
        self._stuck: dict[Path, tuple[int, int]] = {}
        """What could be neither taken away nor set aside, as inode and time: it is not looked at again until it changes."""
        self._thread = threading.Thread(target=self._run, name=f"kv-at-{self.address}", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"{SCHEME}://{quote(str(self._spool.absolute()))}"

    def abort(self, request: bytes, reason: str) -> bool:
        replay = self._replay
        return replay is not None and replay.abort(request, reason)

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join()
        os.close(self._lock)

    def _run(self) -> None:
        while not self._closing.wait(POLL_S):
            found = waiting(self._spool)
            self._stuck = {path: mark for path, mark in self._stuck.items() if found.get(path) == mark}
            for path, mark in found.items():
                if self._closing.is_set():
                    return
                if path not in self._stuck:
                    try:
                        self._take(path)
                    except OSError as error:
                        self._stuck[path] = mark
                        log.warning("%s: left where it is until it changes: %s", _shown(path), error)

    def _take(self, path: Path) -> None:
        """Raises OSError when it is done with and cannot be moved away."""
        replay = self._replay = Replay(self._connection(), self._sink, self._closing)
        try:
            replay.run(path, self._max_file_bytes)
        except Stopped:
            return
        except (ReplayFailed, OSError) as error:
            log.warning("%s: %s", _shown(path), error)
            path.rename(path.with_name(path.name + ".refused"))
        else:
            path.unlink(missing_ok=True)
        finally:
            self._replay = None


def waiting(spool: Path) -> dict[Path, tuple[int, int]]:
    """The files of a spool, the oldest first: inode and time of each."""
    found = []
    for path in spool.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            found.append((status.st_mtime_ns, path, status.st_ino))
    return {path: (inode, at) for at, path, inode in sorted(found)}


def _shown(path: Path) -> str:
    """Names of files are bytes, a log is text."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _announce(spool: Path, connection: Connection) -> None:
    path = spool / DECODE_HELLO
    path.unlink(missing_ok=True)
    file = MappedFile(path, 1 << 20)
    for buffer in seal(connection.hello).buffers:
        file.append(memoryview(buffer))
    file.keep()


def _hello_of_decode(spool: Path, record: CompatRecord, limits: Limits, can: Set[Conversion]) -> bytes:
    """What decode left, or, where none has been yet, what would fit: the verdict is then made at replay.

    Raises OSError, or ReplayFailed for what is none.
    """
    try:
        with opened(spool / DECODE_HELLO, MAX_CONTROL_BYTES) as fd:
            return os.read(fd, MAX_CONTROL_BYTES)
    except FileNotFoundError:
        spool.stat()
        assumed = replace(record, name="decode, not seen yet")
        fitting = Connection(Role.DECODE, assumed, limits, can=can)
        return b"".join(seal(fitting.hello).buffers)
