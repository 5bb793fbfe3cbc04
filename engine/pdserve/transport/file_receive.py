"""The decode side of the file transport: one file put through a Connection, its bodies straight into the sink's memory."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from pdserve.transport.base import KvRefused, KvSink
from pdwire import (
    HEAD_BYTES,
    Abort,
    Bye,
    ChecksumMismatch,
    Complete,
    Connection,
    FirstToken,
    Frame,
    Hello,
    Incoming,
    IncompatiblePeer,
    LayerFrame,
    RemoteProtocolError,
    RequestState,
    seal,
)

log = logging.getLogger("pdserve.transport.file")
GATHER = 1024
SLICE_BYTES = 1 << 20


class ReplayFailed(Exception):
    """The file cannot be taken, or not all of it. What it had placed is aborted."""


class Stopped(Exception):
    """There was no time for the rest: the file is as good as before."""


class Replay:
    """connection: decode's, at its start. stop: set when there is no time for the rest.

    The file is read, not mapped: one that another process cuts short is then an error, where a mapping would kill us.
    """

    def __init__(self, connection: Connection, sink: KvSink, stop: threading.Event) -> None:
        self._connection = connection
        self._sink = sink
        self._stop = stop
        self._lock = threading.Lock()
        self._live: set[bytes] = set()
        self._given_up: dict[bytes, str] = {}

    def abort(self, request: bytes, reason: str) -> bool:
        """See KvListener.abort."""
        with self._lock:
            if request not in self._live:
                return False
            self._given_up[request] = reason
            return True

    def run(self, path: Path, max_bytes: int) -> None:
        """Raises ReplayFailed, Stopped or OSError."""
        reason: object = "the file ends in the middle"
        with opened(path, max_bytes) as fd:
            try:
                self._frames(fd)
            except (KvRefused, RemoteProtocolError, ChecksumMismatch, IncompatiblePeer, OSError) as error:
                reason = error
                raise ReplayFailed(str(error)) from None
            except Stopped as error:
                reason = error
                raise
            except Exception as error:
                log.exception("sink failed on %s", path)
                reason = "internal error of the receiver"
                raise ReplayFailed(reason) from error
            finally:
                self._abort_all(str(reason))

    def _frames(self, fd: int) -> None:
        head = memoryview(bytearray(HEAD_BYTES))
        while True:
            if self._stop.is_set():
                raise Stopped("closed by this side")
            if not _read(fd, [head], None):
                raise RemoteProtocolError("the file ends without BYE")
            incoming = self._connection.begin(head)
            if incoming.layer is not None:
                self._layer(fd, incoming, incoming.layer)
            elif self._control(fd, incoming):
                return

    def _layer(self, fd: int, incoming: Incoming, frame: LayerFrame) -> None:
        self._check(frame.request)
        views = self._place(frame)
        if sum(view.nbytes for view in views) != frame.body_bytes:
            raise ValueError(f"sink placed another size than the {frame.body_bytes} bytes of {frame}")
        if not _read(fd, views, incoming):
            raise RemoteProtocolError(f"the file ends in the middle of {frame}")
        incoming.finish()
        self._check(frame.request)
        self._sink.landed(frame)

    def _place(self, frame: LayerFrame) -> list[memoryview]:
        with self._lock:
            first = frame.request not in self._live
            self._live.add(frame.request)
        try:
            return [memoryview(view).cast("B") for view in self._sink.place(frame)]
        except Exception:
            if first and frame.request not in self._given_up:
                with self._lock:
                    self._live.discard(frame.request)
            raise

    def _control(self, fd: int, incoming: Incoming) -> bool:
        """True: that was the last frame."""
        body = memoryview(bytearray(incoming.head.body_bytes))
        if not _read(fd, [body], incoming):
            raise RemoteProtocolError("the file ends in the middle of a frame")
        frame: Frame = incoming.finish()
        match frame:
            case Hello():
                self._connection.send(seal(self._connection.hello))
            case FirstToken():
                self._check(frame.request)
                self._sink.first_token(frame)
                with self._lock:
                    self._live.discard(frame.request)
                    self._given_up.pop(frame.request, None)
                self._connection.send(seal(Complete(request=frame.request)))
            case Abort() if self._connection.request_state(frame.request) is RequestState.ABORTED_BY_PREFILL:
                for echo in self._connection.owed():
                    self._connection.send(seal(echo))
                self._end(frame.request, frame.reason)
            case _:
                pass
        return isinstance(frame, Bye)

    def _check(self, request: bytes) -> None:
        reason = self._given_up.get(request)
        if reason is not None:
            raise KvRefused(reason)

    def _abort_all(self, reason: str) -> None:
        while self._live:
            request = next(iter(self._live))
            self._end(request, self._given_up.get(request, reason))

    def _end(self, request: bytes, reason: str) -> None:
        with self._lock:
            live = request in self._live
            self._live.discard(request)
        if live:
            try:
                self._sink.aborted(request, reason)
            except Exception:
                log.exception("sink failed to abort request %s", request.hex())


@contextlib.contextmanager
def opened(path: Path, max_bytes: int) -> Iterator[int]:
    """A regular file, and no link: a spool may hold anything. Raises OSError or ReplayFailed."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ReplayFailed("it is not a regular file")
        if found.st_size > max_bytes:
            raise ReplayFailed(f"it has {found.st_size} bytes, more than {max_bytes}")
        yield fd
    finally:
        os.close(fd)


def _read(fd: int, views: Sequence[memoryview], incoming: Incoming | None) -> bool:
    """Fills the views, in order, and shows them to the checksum. False: the file ends before."""
    todo = [view for view in views if view.nbytes]
    while todo:
        batch, room = [], SLICE_BYTES
        for view in todo[:GATHER]:
            batch.append(view[:room])
            room -= view.nbytes
            if room <= 0:
                break
        count = os.readv(fd, batch)
        if not count:
            return False
        while count:
            view = todo[0]
            taken = min(count, view.nbytes)
            if incoming is not None:
                incoming.update(view[:taken])
            count -= taken
            todo[:1] = [] if taken == view.nbytes else [view[taken:]]
    return True
