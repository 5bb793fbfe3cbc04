"""The prefill side of the shm transport: asks where a request's KV goes, once, and writes it there."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pdserve.transport.shm_stream import WritingStream
from pdserve.transport.tcp_send import Sender
from pdwire import Abort, AbortCode, Connection, Frame, LayerFrame, Locate, Places, RemoteProtocolError, leave_open


class ShmSender(Sender):
    """Raises TransferFailed as the interface says; built by ShmTransport.connect."""

    def __init__(self, stream: WritingStream, connection: Connection, *, deadline: float) -> None:
        self._stream = stream
        self._asked: set[bytes] = set()
        super().__init__(stream, connection, deadline=deadline)

    def push(self, frame: LayerFrame, body: Sequence[memoryview], *, deadline: float) -> None:
        if self._stream.writes and frame.request not in self._stream.places:
            self._locate(frame.request, deadline)
        if self._stream.writes:
            self._send(frame.request, lambda: leave_open(frame, body), deadline)
        else:
            super().push(frame, body, deadline=deadline)

    def _greeted(self, deadline: float) -> None:
        if not self._stream.accept(deadline):
            frame = self._endpoint.receive(deadline, self._endpoint.keep_up, lambda incoming: None)
            raise RemoteProtocolError(f"decode said {type(frame).__name__} where it says what it lends")

    def _locate(self, request: bytes, deadline: float) -> None:
        """Returns when the places are known, or the request has ended: `push` then says so."""
        with self._lock:
            self._check(request)
            first = request not in self._asked
            self._asked.add(request)
        if first:
            self._endpoint.post(Locate(request=request))
        with self._lock:
            while request not in self._stream.places:
                self._check(request)
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._lock.wait(left)
            else:
                return
        raise self._given_up(request, AbortCode.DEADLINE, "decode did not say where its KV goes before the deadline")

    def _hear(self, frame: Frame) -> None:
        match frame:
            case Places() if frame.request in self._asked and frame.request not in self._ends:
                self._stream.places[frame.request] = frame
                self._lock.notify_all()
            case _:
                super()._hear(frame)

    def _remember(self, request: bytes, end: Abort | None) -> None:
        super()._remember(request, end)
        self._asked.discard(request)
        self._stream.places.pop(request, None)
