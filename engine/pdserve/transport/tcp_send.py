"""The prefill side of the tcp transport: one connection, pushed into by many threads, read by one of its own."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from pdserve.transport.base import TransferFailed
from pdserve.transport.endpoint import LINGER_S, Endpoint, Late
from pdserve.transport.stream import PeerGone, Stream
from pdwire import (
    Abort,
    AbortCode,
    CompatRecord,
    Complete,
    Connection,
    ConnectionState,
    FirstToken,
    Frame,
    IncompatiblePeer,
    LayerFrame,
    LocalProtocolError,
    RemoteProtocolError,
    RequestState,
    Sealed,
    seal,
)

REMEMBERED = 8192
"""Requests whose end is remembered, so that a late call for one fails instead of starting it anew."""


class Sender:
    """Raises TransferFailed as the interface says; built by a transport's connect."""

    def __init__(self, stream: Stream, connection: Connection, *, deadline: float) -> None:
        """Shakes hands. Raises IncompatiblePeer or TransferFailed; the stream is then closed."""
        self._where = f"decode at {stream.peer}"
        self._endpoint = Endpoint(stream, connection)
        self._lock = self._endpoint.lock
        self._over_code = AbortCode.INTERNAL
        """Of calls after the connection is over: another one may do better, unless decode will not have this peer."""
        self._ends: OrderedDict[bytes, Abort | None] = OrderedDict()
        try:
            self._greet(min(deadline, time.monotonic() + connection.limits.hello_s))
        except BaseException:
            stream.close()
            raise
        self._reader = threading.Thread(target=self._read, name=f"kv-to-{stream.peer}", daemon=True)
        self._reader.start()

    def _greet(self, deadline: float) -> None:
        endpoint = self._endpoint
        try:
            self._open(endpoint, deadline)
            self._greeted(deadline)
        except IncompatiblePeer as error:
            endpoint.give_up(AbortCode.INCOMPATIBLE, error)
            raise
        except PeerGone as error:
            unasked = (
                endpoint.connection.handshake is not None and endpoint.connection.state is ConnectionState.UNPROVEN
            )
            hint = "; it did not ask for a proof: has it a `secret_file`?" if unasked else ""
            code = error.code if error.code is AbortCode.INCOMPATIBLE else _code(time.monotonic() > deadline)
            raise TransferFailed(f"{self._where}: {error}{hint}", code) from None
        except RemoteProtocolError as error:
            endpoint.give_up(AbortCode.of(error), error)
            raise TransferFailed(f"{self._where}: {error}", AbortCode.of(error)) from None

    def _open(self, endpoint: Endpoint, deadline: float) -> None:
        endpoint.open(deadline, lambda incoming: None)

    def _greeted(self, deadline: float) -> None:
        """Both HELLOs are said, and fit. May raise PeerGone."""

    @property
    def peer(self) -> CompatRecord:
        hello = self._endpoint.connection.peer
        assert hello is not None, "a sender exists only after the handshake"
        return hello.record

    @property
    def alive(self) -> bool:
        handshake = self._endpoint.connection.handshake
        return self._endpoint.over is None and (handshake is None or handshake.preferred)

    def push(self, frame: LayerFrame, body: Sequence[memoryview], *, deadline: float) -> None:
        self._send(frame.request, lambda: seal(frame, body), deadline)

    def finish(self, done: FirstToken, *, deadline: float) -> None:
        request = done.request
        self._send(request, lambda: seal(done), deadline)
        with self._lock:
            while request not in self._ends and self._endpoint.over is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._lock.wait(left)
            ended = request in self._ends
            self._check(request, complete_is_fine=True)
        if not ended:
            raise self._given_up(request, AbortCode.DEADLINE, "COMPLETE did not come before the deadline")

    def abort(self, request: bytes, reason: str) -> None:
        self._abort(Abort.because(AbortCode.CANCELLED, reason, request))

    def close(self) -> None:
        self._endpoint.bye()
        self._reader.join(LINGER_S)
        self._endpoint.fail("closed by this side")
        self._reader.join(LINGER_S)

    def _send(self, request: bytes, sealed: Callable[[], Sealed], deadline: float) -> None:
        try:
            with self._lock:
                self._check(request)
            self._endpoint.send(sealed(), deadline, lambda: self._check(request))
        except Late as error:
            raise self._given_up(request, AbortCode.DEADLINE, f"deadline passed before it was sent: {error}") from None
        except LocalProtocolError as error:
            raise self._given_up(request, AbortCode.PROTOCOL, str(error)) from None
        except PeerGone as error:
            # What ended it for the reading thread comes first: a write fails of that.
            raise self._failed(request, self._endpoint.over or str(error), self._over_code) from None

    def _given_up(self, request: bytes, code: AbortCode, reason: str) -> TransferFailed:
        self._abort(Abort.because(code, reason, request))
        return self._failed(request, reason, code)

    def _failed(self, request: bytes, reason: str, code: AbortCode) -> TransferFailed:
        return TransferFailed(f"{self._where}: request {request.hex()}: {reason}", code)

    def _abort(self, abort: Abort) -> None:
        with self._lock:
            if abort.request in self._ends:
                return
            self._remember(abort.request, abort)
        self._endpoint.post(abort)

    def _check(self, request: bytes, *, complete_is_fine: bool = False) -> None:
        """Under the lock."""
        end = self._ends.get(request)
        if end is not None:
            raise self._failed(request, end.reason, end.code)
        if request in self._ends:
            if complete_is_fine:
                return
            raise self._failed(request, "it is already complete", AbortCode.PROTOCOL)
        if self._endpoint.over is not None:
            raise self._failed(request, self._endpoint.over, self._over_code)

    def _remember(self, request: bytes, end: Abort | None) -> None:
        """Under the lock. end: None for complete. The first end of a request stays."""
        self._ends.setdefault(request, end)
        if len(self._ends) > REMEMBERED:
            self._ends.popitem(last=False)
        self._lock.notify_all()

    # The reading thread.

    def _read(self) -> None:
        endpoint = self._endpoint
        try:
            while True:
                endpoint.receive(None, self._tick, lambda incoming: None, self._hear)
                endpoint.keep_up()
        except PeerGone as error:
            if error.code is AbortCode.INCOMPATIBLE:
                self._over_code = error.code
            endpoint.fail(str(error))
        except RemoteProtocolError as error:
            endpoint.give_up(AbortCode.of(error), error)
        finally:
            endpoint.close()

    def _hear(self, frame: Frame) -> None:
        """Under the lock."""
        match frame:
            case Complete() if self._endpoint.connection.request_state(frame.request) is RequestState.IDLE:
                self._remember(frame.request, None)
            case Abort():
                self._remember(frame.request, frame)
            case _:
                pass

    def _tick(self) -> None:
        with self._lock:
            overdue = self._endpoint.connection.overdue()
        for abort in overdue:
            self._abort(abort)
        self._endpoint.keep_up()


def _code(late: bool) -> AbortCode:
    return AbortCode.DEADLINE if late else AbortCode.INTERNAL
