"""One direction of the fake transport's link: bytes in, faults done to the frames among them, bytes out when due.

No sockets: `take` and `end` are told what the speaker said, `waiting` is what the hearer is to get.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from pdserve.transport.faults import Corrupt, Cut, Delay, Drop, Duplicate, Fault, Reorder, Stall
from pdwire import HEAD_BYTES, RemoteProtocolError, Role
from pdwire.header import Head, read_head


class Way:
    """What one side says to the other. judge: asked for each frame, once its head is there."""

    def __init__(self, role: Role, judge: Callable[[Head], Fault | None]) -> None:
        self.role = role
        self.ended = False
        """The side that speaks will say no more."""
        self.cut = False
        """Once `waiting` has gone out, nothing more does, either way."""
        self.stalled = False
        self.blocked = False
        """The hearer takes nothing more just now."""
        self.waiting: deque[tuple[float, memoryview]] = deque()
        """When it is due, and what."""
        self._judge = judge
        self._head = bytearray()
        self._left = 0
        """Bytes still to come of the frame that is passing."""
        self._at = 0
        """How many of it have passed."""
        self._fault: Fault | None = None
        self._kept = bytearray()
        self._held: tuple[float, bytes] | None = None
        self._lag = 0.0
        self._unframed = False

    @property
    def bytes_waiting(self) -> int:
        return sum(piece.nbytes for _, piece in self.waiting)

    @property
    def due(self) -> float | None:
        """When there is something to do without another byte from the speaker. `time.monotonic()` seconds."""
        times = [self.waiting[0][0]] if self.waiting and not self.blocked else []
        times += [self._held[0]] if self._held is not None and self._between_frames else []
        return min(times, default=None)

    @property
    def _between_frames(self) -> bool:
        return self._left == 0 and not self._head

    def take(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.cut and not self.stalled:
            if self._unframed:
                self._emit(view)
                return
            if self._left == 0:
                missing = HEAD_BYTES - len(self._head)
                self._head += view[:missing]
                view = view[missing:]
                if len(self._head) == HEAD_BYTES:
                    raw, self._head = bytes(self._head), bytearray()
                    self._begin(raw)
            else:
                piece, view = view[: self._left], view[self._left :]
                self._pass(piece)

    def end(self) -> None:
        """The speaker will say no more: what was kept back goes out as far as it came."""
        self.ended = True
        self.release(float("inf"))
        if not self.cut and not self.stalled:
            self._emit(bytes(self._head))

    def release(self, now: float) -> None:
        """Lets go of a reordered frame after which nothing came."""
        if self._held is not None and self._held[0] <= now and (self._between_frames or self.ended):
            held, self._held = self._held[1], None
            self._emit(held)

    def _begin(self, raw: bytes) -> None:
        try:
            head = read_head(raw)
        except RemoteProtocolError:
            self._unframed = True
            self._emit(raw)
            return
        self._fault, self._left, self._at = self._judge(head), head.length, 0
        match self._fault:
            case Stall():
                self.stalled = True
            case Delay(seconds):
                self._lag = time.monotonic() + seconds
        self._pass(raw)

    def _pass(self, piece: bytes | memoryview) -> None:
        """The next bytes of a frame, all of it being one and the same frame's."""
        at, self._at, self._left = self._at, self._at + len(piece), self._left - len(piece)
        match self._fault:
            case Drop() | Stall():
                pass
            case Duplicate() | Reorder():
                self._kept += piece
            case Corrupt(bit) if bit is not None and at <= bit // 8 < self._at:
                altered = bytearray(piece)
                altered[bit // 8 - at] ^= 1 << bit % 8
                self._emit(altered)
            case Cut(after) if after is not None and after < self._at:
                self._emit(piece[: max(0, after - at)])
                self.cut = True
            case _:
                self._emit(piece)
        if self._left == 0 and not self.cut and not self.stalled:
            self._complete()

    def _complete(self) -> None:
        kept, self._kept = bytes(self._kept), bytearray()
        match self._fault:
            case Duplicate():
                self._emit(kept)
                self._emit(kept)
            case Reorder(at_most_s) if self._held is None:
                self._held = time.monotonic() + at_most_s, kept
                return
            case Reorder():
                self._emit(kept)
            case Drop():
                return
        self.release(float("inf"))

    def _emit(self, piece: bytes | bytearray | memoryview) -> None:
        if len(piece):
            self.waiting.append((self._lag, memoryview(bytes(piece))))
