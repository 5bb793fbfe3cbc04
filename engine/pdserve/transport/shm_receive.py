"""The decode side of the shm transport: a session whose peer writes into the sink's own memory.

A request is lent from the moment its places are said until prefill cannot write to them any more: it has sent the
first token, has said ABORT (its own, or the answer to ours), or holds the segment no longer. Only then does the sink
hear `aborted`; whatever ends the request earlier is remembered as the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from pdserve.transport.base import KvSink, LendingSink
from pdserve.transport.claims import Claims
from pdserve.transport.endpoint import LINGER_S
from pdserve.transport.shm_stream import LendingStream
from pdserve.transport.tcp_receive import Session, log
from pdwire import Abort, AbortCode, Complete, Connection, Frame, Incoming, LayerFrame, Locate, Places, RequestState


class LendingSession(Session):
    """For a sink that lends its memory; with any other, bodies come by the stream."""

    def __init__(self, stream: LendingStream, connection: Connection, sink: KvSink, claims: Claims) -> None:
        super().__init__(stream, connection, sink, claims)
        self._stream = stream
        self._lender = sink if isinstance(sink, LendingSink) and sink.segment is not None else None
        self._lent: dict[bytes, str | None] = {}
        """Why each request ends that has ended on this side already; None: it has not."""
        self._cut = False

    def abort(self, request: bytes, reason: str) -> bool:
        with self._lock:
            if request not in self._lent:
                return super().abort(request, reason)
            self._ends(request, reason)
        self._endpoint.post(Abort.because(AbortCode.CANCELLED, reason, request))
        return True

    def cut(self) -> None:
        self._cut = True
        super().cut()

    def _greeted(self) -> None:
        ours, peer = self._endpoint.connection.record, self._endpoint.connection.peer
        if peer is not None and peer.record.dtype is not ours.dtype:
            self._lender = None  # it is converted here, so prefill cannot write it to its place
        self._stream.lend(None if self._lender is None else self._lender.segment)

    def _place(self, incoming: Incoming) -> Sequence[memoryview] | None:
        request = incoming.head.request
        if self._stream.lending and incoming.wanted:
            with self._lock:
                known, ended = request in self._lent, self._lent.get(request)
            if ended is not None:
                return None
            if not known:
                self._refuse(request, AbortCode.PROTOCOL, f"{incoming.layer}: nobody asked where it goes")
                return None
        return super()._place(incoming)

    def _hear(self, frame: Frame) -> None:
        match frame:
            case Locate() if self._lender is not None and self._state(frame.request) is RequestState.STREAMING:
                self._lend(frame.request, self._lender)
            case Abort() if frame.request in self._lent:
                with self._lock:
                    reason = self._lent.pop(frame.request) or frame.reason
                self._end(frame.request, reason)
            case LayerFrame() if self._lent.get(frame.request) is not None:
                self._idle()
            case _:
                super()._hear(frame)

    def _lend(self, request: bytes, lender: LendingSink) -> None:
        if not self._claim(request):
            self._refuse_foreign(request)
            return
        lent: list[Places] = []
        if not self._ask(request, lambda: lent.append(lender.lend(request))):
            return
        with self._lock:
            if not self._given_up:
                self._live.add(request)
                self._lent[request] = None
        self._idle()
        if self._lent.get(request, "") is None:
            self._endpoint.post(lent[0])

    def _idle(self, complete: Complete | None = None) -> None:
        if complete is not None:
            with self._lock:
                if self._lent.get(complete.request) is None:
                    self._lent.pop(complete.request, None)
                else:
                    complete = None
        super()._idle(complete)

    def _end(self, request: bytes, reason: str, *, even_if_unknown: bool = False) -> None:
        with self._lock:
            if request in self._lent:
                self._ends(request, reason)
                self._busy = None
                return
        super()._end(request, reason, even_if_unknown=even_if_unknown)

    def _ends(self, request: bytes, reason: str) -> None:
        """Under the lock."""
        self._lent[request] = self._lent[request] or reason

    def _finish(self) -> None:
        if self._lent:
            self._wait_until_let_go()
        while self._lent:
            with self._lock:
                request, reason = self._lent.popitem()
            if reason is not None:
                self._end(request, reason)
        super()._finish()

    def _wait_until_let_go(self) -> None:
        self._stream.linger(LINGER_S)
        if not self._stream.let_go(LINGER_S):
            log.warning(
                "%s: the connection is over, but the process still has decode's memory mapped: the blocks of %d requests "
                "stay set aside until it lets go or ends",
                self.peer,
                len(self._lent),
            )
            while not self._cut and not self._stream.let_go(LINGER_S):
                pass
