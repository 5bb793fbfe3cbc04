"""The decode side of the tcp transport: a listener, and a session with its own thread for each prefill side.

A request is live in a session from the first frame that the sink agreed to place until the sink took its first token,
was told `aborted`, or gave the request up itself. While the sink is asked about a request, or a frame of it is being
written, the request is busy: giving it up then means that `aborted` follows when that is over. From the first of that
to the last it is claimed: no other session of the listener may ask for it, or end it.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence

from pdserve.transport.base import GreetedSink, KvRefused, KvSink
from pdserve.transport.claims import Claims
from pdserve.transport.endpoint import LINGER_S, Endpoint
from pdserve.transport.meter import METER
from pdserve.transport.stream import PeerGone, Stream
from pdwire import (
    UNPROVEN,
    Abort,
    AbortCode,
    ChecksumMismatch,
    Complete,
    Connection,
    ConnectionState,
    FirstToken,
    Frame,
    Incoming,
    IncompatiblePeer,
    LayerFrame,
    RemoteProtocolError,
    RequestState,
    seal,
)

log = logging.getLogger("pdserve.transport.tcp")


class Session:
    """One connection from a prefill side, from its first byte to its last. claims: of its listener."""

    def __init__(self, stream: Stream, connection: Connection, sink: KvSink, claims: Claims) -> None:
        self._endpoint = Endpoint(stream, connection)
        self._lock = self._endpoint.lock
        self._sink = sink
        self._claims = claims
        self._live: set[bytes] = set()
        self._busy: bytes | None = None
        self._given_up = False
        """The engine gave up the busy request."""

    @property
    def peer(self) -> str:
        return self._endpoint.stream.peer

    def turn_away(self, reason: str) -> None:
        """Instead of `run`: tells the peer why, as far as that needs no waiting."""
        stream, refusal = self._endpoint.stream, Abort.because(AbortCode.REFUSED, reason)
        with contextlib.suppress(PeerGone):
            stream.write_some([memoryview(buffer) for buffer in self._endpoint.connection.send(seal(refusal))])
        stream.close()

    @property
    def is_stranger(self) -> bool:
        """It has still to prove that it holds the secret, and its connection is not over."""
        return self._endpoint.over is None and self._endpoint.connection.state in UNPROVEN

    def abort(self, request: bytes, reason: str) -> bool:
        """See KvListener.abort."""
        with self._lock:
            busy = self._busy == request
            if not busy and request not in self._live:
                return False
            self._given_up |= busy
            self._live.discard(request)
            if not busy:
                self._claims.give_back([request], self)
        self._endpoint.post(Abort.because(AbortCode.CANCELLED, reason, request))
        return busy

    def run(self) -> None:
        """Reads until the end: the thread's whole life. Whatever a peer sends costs one log line and its connection."""
        endpoint = self._endpoint
        try:
            self._serve()
        except PeerGone as error:
            if endpoint.connection.state is not ConnectionState.CLOSED:
                self._log(error)
            endpoint.fail(str(error))
        except IncompatiblePeer as error:
            self._log(error)
            endpoint.post(endpoint.connection.hello)
            endpoint.give_up(AbortCode.INCOMPATIBLE, error)
        except RemoteProtocolError as error:
            self._log(error)
            endpoint.give_up(AbortCode.of(error), error)
        except Exception:
            log.exception("%s: connection given up", endpoint.stream.peer)
            endpoint.give_up(AbortCode.INTERNAL, "internal error of the receiver")
        finally:
            if endpoint.connection.handshake is not None and endpoint.connection.peer is None:
                METER.refused_a_stranger()
            self._finish()

    def _finish(self) -> None:
        self._abort_all()
        self._claims.end(self)
        self._endpoint.close()

    def close(self) -> None:
        self._endpoint.bye()

    def cut(self) -> None:
        """For a peer that does not answer `close`."""
        self._endpoint.fail("closed by this side")

    def _log(self, error: Exception) -> None:
        if self._endpoint.over is None:
            log.warning("%s: %s", self._endpoint.stream.peer, str(error))

    def _serve(self) -> None:
        endpoint = self._endpoint
        endpoint.open(time.monotonic() + endpoint.connection.limits.hello_s, self._place)
        if isinstance(self._sink, GreetedSink) and endpoint.connection.peer is not None:
            self._sink.greeted(endpoint.connection.peer)
        self._greeted()
        while True:
            try:
                self._hear(endpoint.receive(None, self._tick, self._place))
            except ChecksumMismatch as error:
                METER.checksum_failed()
                if self._busy != error.frame.request:
                    raise
                log.warning("%s: %s", endpoint.stream.peer, str(error))
                self._refuse(error.frame.request, AbortCode.CHECKSUM, error)
            endpoint.keep_up()

    def _greeted(self) -> None:
        """Both HELLOs are said, and fit."""

    def _place(self, incoming: Incoming) -> Sequence[memoryview] | None:
        frame = incoming.layer
        assert frame is not None, "only KV is placed"
        with self._lock:
            if not incoming.wanted:
                return None
            mine = self._claim(frame.request)
        if not mine:
            self._refuse_foreign(frame.request)
            return None
        placed: list[memoryview] = []
        if not self._ask(frame.request, lambda: placed.extend(_views(self._sink, frame))):
            return None
        with self._lock:
            if not self._given_up:
                self._live.add(frame.request)
        return placed

    def _hear(self, frame: Frame) -> None:
        match frame:
            case LayerFrame() if self._busy is not None:
                if self._given_up or self._ask(frame.request, lambda: self._sink.landed(frame)):
                    self._idle()
            case FirstToken() if self._state(frame.request) is RequestState.FINISHING:
                if not self._claim(frame.request):
                    self._refuse_foreign(frame.request)
                elif self._ask(frame.request, lambda: self._sink.first_token(frame)):
                    self._idle(Complete(request=frame.request))
            case Abort() if self._state(frame.request) is RequestState.ABORTED_BY_PREFILL:
                if self._claims.take(frame.request, self):
                    self._end(frame.request, frame.reason, even_if_unknown=True)
            case _:
                pass

    def _state(self, request: bytes) -> RequestState:
        with self._lock:
            return self._endpoint.connection.request_state(request)

    def _claim(self, request: bytes) -> bool:
        """Makes it the busy one. False: another session has it."""
        with self._lock:
            mine = self._claims.take(request, self)
            if mine:
                self._busy = request
            return mine

    def _refuse_foreign(self, request: bytes) -> None:
        self._refuse(request, AbortCode.REFUSED, f"request {request.hex()} is being sent over another connection")

    def _ask(self, request: bytes, question: Callable[[], None]) -> bool:
        """False: the sink said no, and the request has ended."""
        try:
            question()
        except KvRefused as error:
            self._refuse(request, AbortCode.REFUSED, error)
        except Exception:
            log.exception("sink failed on request %s", request.hex())
            self._refuse(request, AbortCode.INTERNAL, "internal error of the receiver")
        else:
            return True
        return False

    def _refuse(self, request: bytes, code: AbortCode, reason: object) -> None:
        abort = Abort.because(code, reason, request)
        self._endpoint.post(abort)
        self._end(request, abort.reason)

    def _idle(self, complete: Complete | None = None) -> None:
        """The busy request is no longer so. complete: its last frame, if it was."""
        with self._lock:
            request, given_up = self._busy, self._given_up
            if not given_up:
                self._busy = None
                if complete is not None:
                    self._live.discard(complete.request)
                    self._claims.give_back([complete.request], self)
        if given_up and request is not None:
            self._end(request, "given up by the receiver")
        elif complete is not None:
            self._endpoint.post(complete)

    def _end(self, request: bytes, reason: str, *, even_if_unknown: bool = False) -> None:
        """No byte of the request will be written any more; says so to the sink, once."""
        with self._lock:
            tell = even_if_unknown or request in self._live or (self._given_up and self._busy == request)
            self._live.discard(request)
            self._busy = request
        if tell:
            try:
                self._sink.aborted(request, reason)
            except Exception:
                log.exception("sink failed to abort request %s", request.hex())
        with self._lock:
            self._busy, self._given_up = None, False
            self._claims.give_back([request], self)

    def _abort_all(self) -> None:
        reason = self._endpoint.over or "closed by this side"
        with self._lock:
            if self._given_up and self._busy is not None:
                self._live.add(self._busy)
        while self._live:
            with self._lock:
                request = next(iter(self._live), None)
            if request is not None:
                self._end(request, reason)

    def _tick(self) -> None:
        with self._lock:
            overdue = self._endpoint.connection.overdue()
        for abort in overdue:
            log.warning("%s: request %s: %s", self._endpoint.stream.peer, abort.request.hex(), abort.reason)
            self._endpoint.post(abort)
            self._end(abort.request, abort.reason)
        self._endpoint.keep_up()


def _views(sink: KvSink, frame: LayerFrame) -> list[memoryview]:
    views = [memoryview(view).cast("B") for view in sink.place(frame)]
    size = sum(view.nbytes for view in views)
    if size != frame.body_bytes:
        raise ValueError(f"sink placed {size} bytes for the {frame.body_bytes} of {frame}")
    return views


class Listener:
    """Accepts until closed. At most max_connections sessions at a time; one more is told so and closed.

    open: what an accepted socket becomes; None, or OSError, drops it.
    """

    def __init__(
        self,
        sock: socket.socket,
        address: str,
        open: Callable[[socket.socket], Session | None],
        *,
        max_connections: int,
    ) -> None:
        self._socket = sock
        self._open_session = open
        self._max = max_connections
        self._lock = threading.Lock()
        self._sessions: dict[Session, threading.Thread] = {}
        self._wake, self._woken = socket.socketpair()
        self._address = address
        sock.setblocking(False)
        self._acceptor = threading.Thread(target=self._accept, name=f"kv-at-{self._address}", daemon=True)
        self._acceptor.start()

    @property
    def address(self) -> str:
        return self._address

    @property
    def connections(self) -> int:
        """Sessions that have not ended."""
        with self._lock:
            return len(self._sessions)

    def abort(self, request: bytes, reason: str) -> bool:
        with self._lock:
            sessions = list(self._sessions)
        answers = [session.abort(request, reason) for session in sessions]
        return any(answers)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
        self._acceptor.join(LINGER_S)
        with self._lock:
            sessions = dict(self._sessions)
        for session in sessions:
            session.close()
        for end in (time.monotonic() + LINGER_S, time.monotonic() + 3 * LINGER_S):
            for session, thread in sessions.items():
                thread.join(max(0.0, end - time.monotonic()))
                session.cut()
        self._wake.close()

    def _accept(self) -> None:
        with self._socket, self._woken, selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while self._woken not in {key.fileobj for key, _ in selector.select()}:
                try:
                    sock, _ = self._socket.accept()
                except BlockingIOError:
                    continue
                except OSError as error:
                    # Out of file descriptors, or a connection that died in the queue: the next one may be luckier.
                    log.warning("%s: accept failed: %s", self._address, str(error))
                    time.sleep(0.5)
                    continue
                self._open(sock)

    def _open(self, sock: socket.socket) -> None:
        session = None
        with contextlib.suppress(OSError):
            session = self._open_session(sock)
        if session is None:
            sock.close()
            return
        if self.connections >= self._max and not self._make_room():
            log.warning("%s: refused, there are %d connections already", session.peer, self._max)
            session.turn_away(f"decode has {self._max} connections already")
            return
        thread = threading.Thread(target=self._run, args=(session,), name=f"kv-from-{session.peer}", daemon=True)
        with self._lock:
            self._sessions[session] = thread
        try:
            thread.start()
        except RuntimeError as error:
            log.warning("%s: refused: %s", session.peer, str(error))
            with self._lock:
                del self._sessions[session]
            session.turn_away("decode cannot start another thread")

    def _make_room(self) -> bool:
        """Lets the stranger go who has hesitated longest: who has no secret must not keep out who has.

        Waits until it has gone, or a flood of them would have more threads than there may be connections.
        """
        with self._lock:
            strangers = [(session, thread) for session, thread in self._sessions.items() if session.is_stranger]
        for session, thread in strangers[:1]:
            session.cut()
            thread.join(LINGER_S)
        return self.connections < self._max

    def _run(self, session: Session) -> None:
        try:
            session.run()
        finally:
            with self._lock:
                del self._sessions[session]
