"""The prefill side of the file transport: one file for each request, kept when it is finished."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from pdserve.transport.base import TransferFailed
from pdserve.transport.mapped_file import MappedFile
from pdserve.transport.tcp_send import REMEMBERED
from pdwire import (
    Abort,
    AbortCode,
    Bye,
    CompatRecord,
    Complete,
    Connection,
    FirstToken,
    LayerFrame,
    LayerHead,
    LocalProtocolError,
    RequestState,
    Sealed,
    leave_open,
    seal,
)

COMPLETE = "it is already complete"


class FileSender:
    """connection: open. It checks every frame as one that goes to a peer would be."""

    def __init__(self, spool: Path, connection: Connection, *, max_file_bytes: int) -> None:
        self._spool = spool
        self._connection = connection
        self._max_file_bytes = max_file_bytes
        self._lock = threading.RLock()
        self._files: dict[bytes, MappedFile] = {}
        self._ends: OrderedDict[bytes, str] = OrderedDict()
        self._closed = False

    @property
    def peer(self) -> CompatRecord:
        hello = self._connection.peer
        assert hello is not None, "a sender exists only after the handshake"
        return hello.record

    @property
    def alive(self) -> bool:
        return not self._closed

    def push(self, frame: LayerFrame, body: Sequence[memoryview], *, deadline: float) -> None:
        """A disk that is slow delays it: there is no deadline for one."""
        with self._lock:
            self._write(frame.request, frame, body)

    def finish(self, done: FirstToken, *, deadline: float) -> None:
        """Returns when the file is on the disk and decode can see it."""
        request = done.request
        with self._lock:
            self._write(request, done)
            file = self._files.pop(request)
            try:
                for buffer in seal(Bye()).buffers:
                    file.append(memoryview(buffer))
            except OSError as error:
                file.drop()
                raise self._ended(request, AbortCode.INTERNAL, str(error)) from None
            self._hear(Complete(request=request))
        try:
            file.keep()
        except OSError as error:
            raise self._ended(request, AbortCode.INTERNAL, f"cannot keep {file.path}: {error}") from None
        with self._lock:
            self._remember(request, COMPLETE)

    def abort(self, request: bytes, reason: str) -> None:
        with self._lock:
            self._drop(request, reason)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for request in list(self._files):
                self._drop(request, "closed by this side")

    # Under the lock.

    def _write(self, request: bytes, frame: LayerFrame | FirstToken, body: Sequence[memoryview] = ()) -> None:
        self._check(request)
        try:
            sealed = leave_open(frame, body) if isinstance(frame, LayerFrame) else seal(frame)
            self._connection.send(sealed)
            self._append(self._file(request), sealed)
        except LocalProtocolError as error:
            self._drop(request, str(error))
            raise self._ended(request, AbortCode.PROTOCOL, str(error)) from None
        except OSError as error:
            self._drop(request, str(error))
            raise self._ended(request, AbortCode.INTERNAL, str(error)) from None

    def _append(self, file: MappedFile, sealed: Sealed) -> None:
        if not isinstance(sealed.frame, LayerFrame):
            for buffer in sealed.buffers:
                file.append(memoryview(buffer))
            return
        start, head = file.size, LayerHead(sealed.frame)
        file.append(memoryview(head.finish()))
        for buffer in sealed.buffers:
            file.append(memoryview(buffer), head.update)
        file.patch(start, head.finish())

    def _file(self, request: bytes) -> MappedFile:
        file = self._files.get(request)
        if file is None:
            file = self._files[request] = MappedFile(self._spool / f"{request.hex()}.kv", self._max_file_bytes)
            for buffer in seal(self._connection.hello).buffers:
                file.append(memoryview(buffer))
        return file

    def _hear(self, answer: Complete | Abort) -> None:
        """In decode's place, so that the connection forgets the request."""
        for buffer in seal(answer).buffers:
            self._connection.feed(buffer)
        self._connection.next_event()

    def _drop(self, request: bytes, reason: str) -> None:
        if request not in self._ends:
            self._remember(request, reason)
        if self._connection.request_state(request) is not RequestState.IDLE:
            abort = Abort.because(AbortCode.CANCELLED, reason, request)
            self._connection.send(seal(abort))
            self._hear(abort)
        file = self._files.pop(request, None)
        if file is not None:
            file.drop()

    def _check(self, request: bytes) -> None:
        if request in self._ends:
            raise self._failed(request, AbortCode.PROTOCOL, self._ends[request])
        if self._closed:
            raise self._failed(request, AbortCode.INTERNAL, "closed by this side")

    def _remember(self, request: bytes, reason: str) -> None:
        self._ends[request] = reason
        if len(self._ends) > REMEMBERED:
            self._ends.popitem(last=False)

    def _ended(self, request: bytes, code: AbortCode, reason: str) -> TransferFailed:
        with self._lock:
            self._remember(request, reason)
        return self._failed(request, code, reason)

    def _failed(self, request: bytes, code: AbortCode, reason: str) -> TransferFailed:
        return TransferFailed(f"spool {self._spool}: request {request.hex()}: {reason}", code)
