"""What is in a sequence of frames that prefill said: each one read, verified and judged, and each request as a whole.

For captures and for the files of the `file` transport. Nothing is trusted and nothing ends at the first fault: a frame
that does not verify is reported and the next one is looked at, as long as lengths can be believed. Bodies are read in
pieces and not kept. What a frame costs, in time and in words, does not grow with what a HELLO claims or what came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pdwire import bodies
from pdwire.errors import LocalProtocolError, RemoteProtocolError
from pdwire.frames import FirstToken, Frame, Hello, Kind, LayerFrame, Role
from pdwire.header import HEAD_BYTES, Checksum, Head, read_head
from pdwire.kvshape import check_frame, check_record, check_tokens
from pdwire.outcome import Side
from pdwire.record import CompatRecord
from pdwire.state import CONNECTION, ConnectionState, advance
from pdwire.validate import CONNECTION as WHOLE_CONNECTION

Read = Callable[[int], bytes]
"""At most that many bytes, fewer only at the end."""

_PIECE = 1 << 20
MOST_NAMED = 20
"""Layers, or requests, of one kind of fault that are named; of the others it is said how many they are."""


@dataclass(frozen=True, slots=True)
class Examined:
    """offset: of its first byte. frame: None where it cannot be read. faults: what is wrong, in words; empty is well."""

    offset: int
    length: int
    kind: Kind | None
    request: bytes
    frame: Frame | None
    faults: tuple[str, ...] = ()


@dataclass
class Told:
    """A request as the frames tell it. ended: FIRST_TOKEN or ABORT, and what it said; None for neither."""

    request: bytes
    frames: int = 0
    body_bytes: int = 0
    again: int = 0
    """Frames that came once more."""
    ended: str | None = None
    faults: list[str] = field(default_factory=list)
    first_token: FirstToken | None = None
    seen: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    """First token and count of the frames of each layer."""

    def add(self, frame: LayerFrame) -> None:
        seen, place = self.seen.setdefault(frame.layer, set()), (frame.first_token, frame.count)
        self.again += place in seen
        seen.add(place)
        self.frames += 1
        self.body_bytes += frame.body_bytes

    def missing(self, layers: int) -> list[str]:
        """Once its FIRST_TOKEN has said how much KV there must be."""
        if self.first_token is None:
            return []
        want = self.first_token.prompt_tokens
        whole = {layer: _whole(seen) for layer, seen in self.seen.items()}
        faulty = layers - sum(have == want for layer, have in whole.items() if layer < layers)
        faults: list[str] = []
        for layer in range(layers if faulty else 0):
            fault = check_tokens(layer, whole.get(layer, 0), want)
            if fault is not None:
                faults.append(str(fault))
            if len(faults) == min(faulty, MOST_NAMED):
                break
        return [*faults, f"and so are {faulty - len(faults)} other layers"] if faulty > len(faults) else faults


def _whole(seen: set[tuple[int, int]]) -> int:
    """Tokens from position 0 without a hole."""
    end = 0
    for first, count in sorted(seen):
        if first > end:
            break
        end = max(end, first + count)
    return end


class Inspection:
    """Iterate `frames`; `requests` and `record` fill meanwhile. capacity_tokens: of the decode that it was meant for."""

    def __init__(self, read: Read, *, capacity_tokens: int = 0xFFFF_FFFF) -> None:
        self.record: CompatRecord | None = None
        self.requests: dict[bytes, Told] = {}
        self.faults: list[str] = []
        """What is wrong with the sequence as a whole."""
        self._read = read
        self._capacity_tokens = capacity_tokens
        self._state = ConnectionState.START

    def frames(self) -> Iterator[Examined]:
        offset, last = 0, None
        while raw := self._read(HEAD_BYTES):
            examined = self._examine(offset, raw)
            yield examined
            if examined.kind is None:
                self.faults.append(f"byte {offset}: what follows is not made of frames")
                return
            offset, last = offset + examined.length, examined.kind
        if last is None:
            self.faults.append("there is not one frame")
        elif last is not Kind.BYE:
            self.faults.append(f"it ends with {last.name} and not with BYE: the writer was interrupted")
        endless = [told.request.hex() for told in self.requests.values() if told.ended is None]
        self.faults += [f"request {request} has no end" for request in endless[:MOST_NAMED]]
        if len(endless) > MOST_NAMED:
            self.faults.append(f"and so have {len(endless) - MOST_NAMED} other requests")

    def _examine(self, offset: int, raw: bytes) -> Examined:
        if len(raw) < HEAD_BYTES:
            return Examined(offset, len(raw), None, b"", None, (f"{len(raw)} bytes where a head has {HEAD_BYTES}",))
        try:
            head = read_head(raw)
        except RemoteProtocolError as error:
            return Examined(offset, HEAD_BYTES, None, raw[32:48], None, (str(error),))
        control, checksum, missing = self._body(head, raw)
        faults = [f"{missing} bytes of the body are missing"] if missing else []
        if not missing and checksum != head.checksum:
            faults.append(f"checksum is {checksum:#018x}, header says {head.checksum:#018x}")
        frame: Frame | None = head.layer
        if frame is None and not faults:
            try:
                frame = bodies.decode(head.kind, head.request, control)
            except LocalProtocolError as error:
                faults.append(str(error))
        faults += self._follow(head)
        if frame is not None:
            faults += self._judge(frame, verified=not faults)
        if head.request in self.requests:
            self.requests[head.request].faults += faults
        return Examined(offset, head.length, head.kind, head.request, frame, tuple(faults))

    def _body(self, head: Head, raw: bytes) -> tuple[bytes, int, int]:
        """A control body, the checksum, and how many bytes are not there."""
        checksum, control, left = Checksum(raw), bytearray(), head.body_bytes
        while left and (piece := self._read(min(left, _PIECE))):
            checksum.update(piece)
            left -= len(piece)
            if head.layer is None:
                control += piece
        return bytes(control), checksum.value, left

    def _follow(self, head: Head) -> list[str]:
        """What prefill says must be in order. Decode's answers are not here: it is taken as having given them at once."""
        kind, told = head.kind, self.requests.get(head.request)
        following = advance(CONNECTION, self._state, Role.PREFILL, kind)
        if following is None and head.layer is not None and self._state is ConnectionState.START:
            return ["it comes before any HELLO: nobody has said what shape it should have"]
        if kind is Kind.ABORT and head.request == WHOLE_CONNECTION:
            self._state = ConnectionState.BROKEN
            return ["prefill gave the whole connection up"]
        if following is None:
            return [f"prefill may not say {kind.name.lower()} while the connection is {self._state.value}"]
        self._state = ConnectionState.OPEN if following is ConnectionState.GREETED else following
        if told is not None and told.ended is not None and kind is not Kind.ABORT:
            return [f"its request has ended before it: {told.ended}"]
        return []

    def _judge(self, frame: Frame, verified: bool) -> list[str]:
        match frame:
            case Hello():
                return self._greet(frame)
            case LayerFrame():
                told = self._told(frame.request)
                if verified:
                    told.add(frame)
                if self.record is None:
                    return []
                fault = check_frame(frame, self.record, self._capacity_tokens)
                return [] if fault is None else [str(fault)]
            case FirstToken():
                told = self._told(frame.request)
                if told.ended is not None:
                    return []
                told.first_token = frame
                told.ended = f"token {frame.token} after {frame.prompt_tokens} prompt tokens"
                return [] if self.record is None else told.missing(self.record.layers)
            case _:
                reason = getattr(frame, "reason", None)
                request = getattr(frame, "request", b"")
                if reason is not None and any(request):
                    self._told(request).ended = f"given up: {reason}"
                return []

    def _greet(self, hello: Hello) -> list[str]:
        faults = []
        if hello.role is not Role.PREFILL:
            faults.append("it is decode's HELLO, where prefill's is wanted")
        elif self.record is not None and hello.record != self.record:
            faults.append("it is another HELLO than the one before")
        fault = check_record(hello.record, Side.PREFILL)
        self.record = self.record or hello.record
        return faults if fault is None else [*faults, str(fault)]

    def _told(self, request: bytes) -> Told:
        return self.requests.setdefault(request, Told(request))
