"""One end of a connection, without the connection: what to write, what was read, and whether both are in order.

Writing: `send(seal(frame, body))` gives the buffers to write, the body's own among them, uncopied. Sealing reads the
body once for the checksum and needs no lock; `send` is where the order of frames is decided.

Reading: `begin(64 bytes)` checks the head against all that was negotiated and says how many bytes follow. The caller
takes them wherever they belong, shows each piece to `update`, and `finish` verifies the checksum and gives the frame.
`feed` and `next_event` do the same over plain bytes.

After each frame, and every `limits.tick_s`, the caller sends what `owed()` returns and asks `overdue()`.
Not thread-safe. Times are those of `clock`, in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from dataclasses import dataclass

from pdwire import bodies
from pdwire.auth import Credentials, Handshake
from pdwire.compat import Conversion, Side, Verdict, verdict
from pdwire.errors import (
    ChecksumMismatch,
    IncompatiblePeer,
    LocalProtocolError,
    RemoteProtocolError,
    Unauthenticated,
    WireError,
)
from pdwire.frames import KIND_OF, Abort, Challenge, Credit, Frame, Hello, Kind, LayerFrame, Ping, Proof, Role
from pdwire.header import HEAD_BYTES, Buffer, Checksum, Head, read_head
from pdwire.kvshape import check_frame, check_record
from pdwire.limits import MAX_HANDSHAKE_BYTES, Limits, Offer
from pdwire.record import CompatRecord
from pdwire.requests import Requests
from pdwire.sealing import Sealed, request_of
from pdwire.state import (
    CONNECTION,
    CONNECTION_DEADLINE,
    OWN_ABORT,
    UNPROVEN,
    ConnectionState,
    RequestState,
    advance,
    may_say,
)
from pdwire.validate import CONNECTION as WHOLE_CONNECTION
from pdwire.validate import authored_by_peer


@dataclass(frozen=True, slots=True)
class Received:
    """What `next_event` gives. body: the bytes of a LayerFrame, else empty."""

    frame: Frame
    body: bytes = b""


class Incoming:
    """A frame whose head has passed and whose body is being read."""

    __slots__ = ("_checksum", "_connection", "_control", "_skipped", "head")

    def __init__(self, connection: Connection, head: Head, raw: Buffer) -> None:
        self._connection = connection
        self._checksum = Checksum(raw)
        self._control = bytearray()
        self._skipped = False
        self.head = head

    @property
    def layer(self) -> LayerFrame | None:
        """Set when the body is KV, which the caller stores; a control body is kept here."""
        return self.head.layer

    @property
    def wanted(self) -> bool:
        """False once the frame's request is aborted: its body is read and dropped."""
        return self._connection.request_state(self.head.request) is not OWN_ABORT[self._connection.role]

    def update(self, piece: Buffer) -> None:
        """The next bytes of the body, in order."""
        self._checksum.update(piece)
        if self.head.layer is None:
            self._control += piece

    def skip(self) -> None:
        """Of a frame that is not wanted and whose body does not come by the stream: it is not read, nor verified."""
        self._skipped = True

    def finish(self) -> Frame:
        """All body bytes have been shown. The frame now counts.

        Raises ChecksumMismatch for a LAYER, RemoteProtocolError, or IncompatiblePeer for a HELLO.
        """
        checksum = self.head.checksum if self._skipped else self._checksum.value
        return self._connection._finish(self.head, checksum, bytes(self._control))


class Connection:
    """One end. can: what our engine agrees to have converted; the verdict counts what the peer names too. credentials: of this connection
    alone; without them nobody has to prove anything, and a peer that wants proof is refused.

    A decode side whose peer is incompatible still says its HELLO, so that the peer can see why; then it is BROKEN.
    """

    def __init__(
        self,
        role: Role,
        record: CompatRecord,
        limits: Limits | None = None,
        *,
        can: Set[Conversion] = frozenset(),
        credentials: Credentials | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.role = role
        self.record = record
        self._can = can
        self.limits = limits or Limits()
        self.state = ConnectionState.START if credentials is None else ConnectionState.UNPROVEN
        self.handshake = None if credentials is None else Handshake(role, credentials, self.hello)
        self.peer: Hello | None = None
        self.verdict: Verdict | None = None
        self._clock = clock
        self._requests = Requests()
        self._echoes: list[Abort] = []
        self._layer_bytes = 0
        """Of KV frames, sent or received, whichever our role does."""
        self._granted = self.limits.credit_bytes if role is Role.DECODE else 0
        self._heard = self._spoke = self._started = clock()
        self._buffer = bytearray()
        self._incoming: Incoming | None = None

    @property
    def hello(self) -> Hello:
        """Ours."""
        converts = tuple(conversion for conversion in Conversion if conversion in self._can)
        return Hello(role=self.role, record=self.record, offer=self.limits.offer, converts=converts)

    @property
    def opening(self) -> Frame | None:
        """What this side has to say now so that the connection opens. None: the peer has, or it is open, or over."""
        if self.handshake is not None and self.state in UNPROVEN:
            return self.handshake.opening(self.state)
        greets = ConnectionState.START if self.role is Role.PREFILL else ConnectionState.GREETED
        return self.hello if self.state is greets else None

    def request_state(self, request: bytes) -> RequestState:
        return self._requests.state(request)

    @property
    def requests(self) -> dict[bytes, RequestState]:
        """Those that are not idle."""
        return {request: state for request, state, _ in self._requests}

    # Writing.

    @property
    def credit(self) -> int:
        """KV frame bytes that prefill may still send."""
        return self._granted - self._layer_bytes

    def send(self, sealed: Sealed) -> tuple[Buffer, ...]:
        """The buffers to write, whole and before those of a later call. On LocalProtocolError nothing has changed."""
        frame = sealed.frame
        request, kind = request_of(frame), KIND_OF[type(frame)]
        if kind is not Kind.ABORT or request != WHOLE_CONNECTION:
            self._following(self.role, kind, LocalProtocolError)
        if isinstance(frame, LayerFrame):
            self._check_layer(frame, sealed.length, self._peer_offer(), LocalProtocolError)
        elif isinstance(frame, Hello) and frame != self.hello:
            raise LocalProtocolError("hello must carry this side's own record and offer")
        if request != WHOLE_CONNECTION and not may_say(self.request_state(request), self.role, kind):
            state = self.request_state(request).value
            raise LocalProtocolError(f"{kind.name.lower()} for request {request.hex()}, which is {state}")
        if isinstance(frame, Challenge | Proof) and self.handshake is not None:
            self.handshake.said(frame)
        self._advance(self.role, frame, LocalProtocolError)
        match frame:
            case LayerFrame():
                self._layer_bytes += sealed.length
            case Credit():
                self._granted = frame.total
            case Hello() if self.verdict is not None and not self.verdict.ok:
                self.state = ConnectionState.BROKEN
            case _:
                pass
        self._spoke = self._clock()
        return sealed.buffers

    def owed(self) -> list[Frame]:
        """What the protocol now asks of us: answers to ABORT, new credit, a sign of life. Send each at once."""
        echoes, self._echoes = self._echoes, []
        if self.state is not ConnectionState.OPEN:
            return []
        unanswered = OWN_ABORT[self.role.peer]
        frames: list[Frame] = [echo for echo in echoes if self.request_state(echo.request) is unanswered]
        window = self.limits.credit_bytes
        if self.role is Role.DECODE and self._granted - self._layer_bytes <= window - window // 4:
            frames.append(Credit(total=self._layer_bytes + window))
        if not frames and self._clock() - self._spoke >= self._peer_offer().ping_s:
            frames.append(Ping())
        return frames

    # Reading.

    def begin(self, raw: Buffer) -> Incoming:
        """raw: the 64 bytes of a head. Raises RemoteProtocolError; nothing was allocated on the peer's word."""
        try:
            head = read_head(raw)
            self._check_head(head)
        except RemoteProtocolError:
            self.state = ConnectionState.BROKEN
            raise
        self._heard = self._clock()
        return Incoming(self, head, raw)

    def _check_head(self, head: Head) -> None:
        if self.state in UNPROVEN and head.length > MAX_HANDSHAKE_BYTES:
            name = head.kind.name.lower()
            raise RemoteProtocolError(f"length {head.length} of {name}, before a proof at most {MAX_HANDSHAKE_BYTES}")
        if head.kind is Kind.ABORT and head.request == WHOLE_CONNECTION:
            return
        self._following(self.role.peer, head.kind, RemoteProtocolError)
        if head.request != WHOLE_CONNECTION:
            most = self._most_requests()
            self._requests.following(self.role.peer, head.request, head.kind, most, RemoteProtocolError)
        if head.layer is not None:
            self._check_layer(head.layer, head.length, self.limits, RemoteProtocolError)

    def _finish(self, head: Head, checksum: int, body: bytes) -> Frame:
        self._heard = self._clock()
        frame: Frame | None = head.layer
        if head.layer is not None:
            self._layer_bytes += head.length
            if checksum != head.checksum:
                raise ChecksumMismatch(head.layer, checksum, head.checksum)
        try:
            if frame is None:
                frame = self._control_frame(head, checksum, body)
            self._hear(frame)
        except RemoteProtocolError:
            self.state = ConnectionState.BROKEN
            raise
        return frame

    def _control_frame(self, head: Head, checksum: int, body: bytes) -> Frame:
        if checksum != head.checksum:
            name = head.kind.name.lower()
            raise RemoteProtocolError(f"checksum of {name} is {checksum:#018x}, header says {head.checksum:#018x}")
        if head.kind is Kind.HELLO and self.handshake is not None:
            self.handshake.check_hello(body)
        with authored_by_peer():
            return bodies.decode(head.kind, head.request, body)

    def _hear(self, frame: Frame) -> None:
        if isinstance(frame, Challenge | Proof) and self.handshake is not None:
            self.handshake.heard(frame)
        self._advance(self.role.peer, frame, RemoteProtocolError)
        match frame:
            case Hello():
                self._greet(frame)
            case Credit():
                if frame.total < self._granted:
                    raise RemoteProtocolError(f"credit shrinks from {self._granted} to {frame.total}")
                self._granted = frame.total
            case Abort() if self.request_state(frame.request) is OWN_ABORT[self.role.peer]:
                self._echoes.append(frame)
            case _:
                pass

    def _greet(self, hello: Hello) -> None:
        if hello.role is not self.role.peer:
            raise RemoteProtocolError(f"peer of {self.role} must be {self.role.peer}: {str(hello.role)!r}")
        fault = check_record(hello.record, Side(hello.role.value))
        if fault is not None:
            raise RemoteProtocolError(f"hello: {fault}")
        self.peer = hello
        can = self._can & set(hello.converts)
        if self.role is Role.PREFILL:
            self._granted = hello.offer.credit_bytes
            self.verdict = verdict(self.record, hello.record, can=can)
        else:
            self.verdict = verdict(hello.record, self.record, can=can)
        if not self.verdict.ok:
            if self.role is Role.PREFILL:
                self.state = ConnectionState.BROKEN
            raise IncompatiblePeer(self.verdict)

    def feed(self, data: Buffer) -> None:
        """Bytes as they came, in any pieces."""
        self._buffer += data

    def next_event(self) -> Received | None:
        """The next whole frame of what was fed, or None. Raises as `begin` and `finish` do."""
        if self._incoming is None:
            if len(self._buffer) < HEAD_BYTES:
                return None
            self._incoming = self.begin(bytes(self._buffer[:HEAD_BYTES]))
        incoming = self._incoming
        if len(self._buffer) < incoming.head.length:
            return None
        body = bytes(self._buffer[HEAD_BYTES : incoming.head.length])
        del self._buffer[: incoming.head.length]
        self._incoming = None
        incoming.update(body)
        return Received(incoming.finish(), body if incoming.layer else b"")

    # Time.

    def overdue(self) -> list[Abort]:
        """Requests whose deadline passed, as the ABORTs to send for them.

        Raises RemoteProtocolError when it is the connection's own deadline, nobody answers an ABORT, or the secret has
        been rotated out.
        """
        now = self._clock()
        if self.handshake is not None and not self.handshake.taken:
            self.state = ConnectionState.BROKEN
            raise Unauthenticated("the secret that this connection was opened with is taken no longer")
        name = CONNECTION_DEADLINE.get(self.state)
        if name is not None:
            self._break_if_late("connection", name, self._started if name == "hello_s" else self._heard, now)
        for request, state, since in self._requests:
            if state in OWN_ABORT.values():
                self._break_if_late(f"request {request.hex()}, {state.value}", "abort_s", since, now)
        return self._requests.overdue(self.limits, now)

    def _break_if_late(self, what: str, name: str, since: float, now: float) -> None:
        allowed = getattr(self.limits, name)
        if now - since > allowed:
            self.state = ConnectionState.BROKEN
            raise RemoteProtocolError(f"{what}: nothing from the peer for {allowed:g} s ({name})")

    def lost(self) -> None:
        """The bytes ended, or the caller gave the connection up."""
        if self.state is not ConnectionState.CLOSED:
            self.state = ConnectionState.BROKEN

    # Both directions.

    def _peer_offer(self) -> Offer:
        if self.peer is None:
            raise LocalProtocolError("the peer has not said hello")
        return self.peer.offer

    def _check_layer(self, frame: LayerFrame, length: int, offer: Offer, error: type[WireError]) -> None:
        """Against what was negotiated; before memory is taken for it. offer: the receiver's.

        A frame has the form that prefill's engine computed; converting it, where that is agreed, is decode's part.
        """
        record = self.record if self.role is Role.PREFILL or self.peer is None else self.peer.record
        fault = check_frame(frame, record, self._decode_capacity())
        if fault is not None:
            raise error(f"{frame} is not what was negotiated: {fault}")
        if length > offer.max_frame_bytes:
            raise error(f"{frame} has {length} bytes, more than max_frame_bytes {offer.max_frame_bytes}")
        if length > self.credit:
            raise error(f"{frame} has {length} bytes, more than the credit of {self.credit}")

    def _decode_capacity(self) -> int:
        decode = self.record if self.role is Role.DECODE or self.peer is None else self.peer.record
        return decode.capacity_tokens

    def _advance(self, role: Role, frame: Frame, error: type[WireError]) -> None:
        if isinstance(frame, Abort) and frame.request == WHOLE_CONNECTION:
            self.state = ConnectionState.BROKEN
            return
        kind, request = KIND_OF[type(frame)], request_of(frame)
        state = self._following(role, kind, error)
        if request != WHOLE_CONNECTION:
            following = self._requests.following(role, request, kind, self._most_requests(), error)
            self._requests.enter(request, following, self._clock())
        self.state = state

    def _following(self, role: Role, kind: Kind, error: type[WireError]) -> ConnectionState:
        state = advance(CONNECTION, self.state, role, kind)
        if state is None and kind is Kind.CHALLENGE and self.handshake is None:
            raise Unauthenticated("decode asks for the deployment's secret, and prefill was given none (`secret_file`)")
        if state is None and self.state in UNPROVEN:
            raise Unauthenticated(f"{role} said {kind.name.lower()} without a proof that it holds the secret")
        if state is None:
            raise error(f"{role} may not say {kind.name.lower()} while the connection is {self.state.value}")
        return state

    def _most_requests(self) -> int:
        return self.limits.max_requests if self.role is Role.DECODE else self._peer_offer().max_requests
