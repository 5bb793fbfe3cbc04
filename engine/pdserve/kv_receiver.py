"""Decode's end of the transfers: who may write which blocks, what has landed, and when a request's KV is whole.

How it is meant to work, for one request: the engine calls `reserve`; transport threads call `place`, `landed` (per
frame), and `first_token` or `aborted`; the engine is told once, through `on_settled`, how the transfer ended, and
calls `release` when the request is over. Blocks whose views a transport still holds are not given to anyone else:
they come back with the transport's `landed` or `aborted`, and `on_freed` tells the engine. Blocks that were lent to a
prefill process of this host, which writes them itself, are held until `first_token` or `aborted`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

from pdserve.coverage import Coverage
from pdserve.kv_cache import BlockTable, KvCache
from pdserve.landing import Landing, landing_for
from pdserve.transport.base import KvRefused
from pdserve.transport.segment import Segment
from pdwire import Conversion, FirstToken, LayerFrame, LocalProtocolError, Places, dtype_conversion


@dataclass
class TransferFigures:
    """What crossed. resent: frames whose tokens had all landed before. Times: `time.monotonic()` seconds, 0 before the event."""

    frames: int = 0
    bytes: int = 0
    resent: int = 0
    first_frame_at: float = 0.0
    settled_at: float = 0.0


@dataclass
class Reservation:
    """Blocks of one request. `first_token` is set when the KV is whole, `failure` when it never will be."""

    request: bytes
    table: BlockTable
    prompt_tokens: int
    on_settled: Callable[[Reservation], None]
    coverage: list[Coverage]
    figures: TransferFigures = field(default_factory=TransferFigures)
    first_token: FirstToken | None = None
    failure: str | None = None
    writing: LayerFrame | None = None
    lent: bool = False
    released: bool = False
    began: float = field(default_factory=time.monotonic)

    @property
    def settled(self) -> bool:
        return self.first_token is not None or self.failure is not None


class KvReceiver:
    """Implements LendingSink (transport/base.py) over a KvCache. can: of the connections that write here. Thread-safe."""

    def __init__(self, cache: KvCache, landing: Landing | None = None, *, can: Set[Conversion] = frozenset()) -> None:
        self._cache = cache
        self._can = can
        self._landing = landing_for(cache) if landing is None else landing
        self._lock = threading.Lock()
        self._reservations: dict[bytes, Reservation] = {}
        self.on_freed: Callable[[], None] = _nothing
        """Set by the engine: blocks of a released request have come back, later than its release."""

    def reserve(
        self, request: bytes, prompt_tokens: int, total_tokens: int, on_settled: Callable[[Reservation], None]
    ) -> Reservation | None:
        """None when too few blocks are free.

        on_settled is called at most once, from any thread. Raises KvRefused for a known id.
        """
        with self._lock:
            if request in self._reservations:
                raise KvRefused(f"request {request.hex()} is already reserved")
            table = self._cache.allocate(total_tokens)
            if table is None:
                return None
            coverage = [Coverage() for _ in range(self._cache.shape.layers)]
            reservation = Reservation(request, table, prompt_tokens, on_settled, coverage)
            self._reservations[request] = reservation
            return reservation

    def release(self, request: bytes) -> bool:
        """Ends a reservation and gives its blocks back, at once or when the transport lets go of them.

        False if unknown.
        """
        with self._lock:
            reservation = self._reservations.get(request)
            if reservation is None or reservation.released:
                return False
            reservation.released = True
            self._drop_if_idle(reservation)
            return True

    def _drop_if_idle(self, reservation: Reservation) -> bool:
        if not reservation.released or reservation.writing is not None or reservation.lent:
            return False
        del self._reservations[reservation.request]
        self._cache.release(reservation.table)
        return True

    @property
    def reservations(self) -> list[Reservation]:
        """All whose blocks are not free yet, also of requests that are over."""
        with self._lock:
            return list(self._reservations.values())

    # LendingSink

    @property
    def segment(self) -> Segment | None:
        return self._cache.segment

    def lend(self, request: bytes) -> Places:
        with self._lock:
            reservation = self._live(request)
            try:
                places = self._cache.places(request, reservation.table, reservation.prompt_tokens)
            except LocalProtocolError as error:
                raise KvRefused(f"request {request.hex()} lies too scattered to be lent: {error}") from None
            reservation.lent = True
            return places

    # KvSink

    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        with self._lock:
            self._placeable(frame)
        if not self._landing.room(frame):
            raise KvRefused(f"{frame}: decode has no memory free to stage it, too many large frames are on their way")
        try:
            return self._place(frame)
        except BaseException:
            self._landing.forget(frame)
            raise

    def _placeable(self, frame: LayerFrame) -> Reservation:
        reservation = self._live(frame.request)
        self._check(frame, reservation)
        if reservation.writing is not None:
            raise KvRefused(f"{frame}: {reservation.writing} is still on its way")
        return reservation

    def _place(self, frame: LayerFrame) -> Sequence[memoryview]:
        with self._lock:
            reservation = self._placeable(frame)
            views = self._landing.views(reservation.table, frame)
            reservation.writing = frame
            if not reservation.figures.first_frame_at:
                reservation.figures.first_frame_at = time.monotonic()
            return views

    def landed(self, frame: LayerFrame) -> None:
        with self._lock:
            reservation = self._reservations.get(frame.request)
            if reservation is None or reservation.writing != frame:
                raise KvRefused(f"{frame}: landed without being placed")
        # Without the lock: until `writing` is cleared nobody else has to do with its blocks.
        try:
            self._landing.land(reservation.table, frame)
        except Exception as error:
            with self._lock:
                reservation.writing = None
                freed = self._drop_if_idle(reservation)
            if freed:
                self.on_freed()
            if isinstance(error, OverflowError):
                raise KvRefused(f"{frame}: {error}; serve with bfloat16 or float32") from None
            raise
        with self._lock:
            reservation.writing = None
            coverage = reservation.coverage[frame.layer]
            reservation.figures.resent += coverage.holds(frame.first_token, frame.end_token)
            coverage.add(frame.first_token, frame.end_token)
            reservation.figures.frames += 1
            reservation.figures.bytes += frame.body_bytes
            freed = self._drop_if_idle(reservation)
        if freed:
            self.on_freed()

    def first_token(self, done: FirstToken) -> None:
        with self._lock:
            reservation = self._live(done.request)
            if reservation.writing is not None:
                raise KvRefused(f"request {done.request.hex()}: {reservation.writing} is still on its way")
            if done.prompt_tokens != reservation.prompt_tokens:
                raise KvRefused(
                    f"request {done.request.hex()}: {done.prompt_tokens} prompt tokens were sent, "
                    f"{reservation.prompt_tokens} reserved"
                )
            for layer, coverage in enumerate(reservation.coverage):
                for start, end in coverage.missing(done.prompt_tokens):
                    raise KvRefused(
                        f"request {done.request.hex()} layer {layer} tokens {start}..{end - 1} never arrived"
                    )
            reservation.first_token = done
            reservation.lent = False
            reservation.figures.settled_at = time.monotonic()
        reservation.on_settled(reservation)

    def aborted(self, request: bytes, reason: str) -> None:
        with self._lock:
            reservation = self._reservations.get(request)
            if reservation is None:
                return
            if reservation.writing is not None:
                self._landing.forget(reservation.writing)
                reservation.writing = None
            reservation.lent = False
            news = not reservation.settled
            if news:
                reservation.failure = reason
                reservation.figures.settled_at = time.monotonic()
            told = news and not reservation.released
            freed = self._drop_if_idle(reservation)
        if told:
            reservation.on_settled(reservation)
        if freed:
            self.on_freed()

    def _live(self, request: bytes) -> Reservation:
        reservation = self._reservations.get(request)
        if reservation is None or reservation.released:
            raise KvRefused(f"request {request.hex()} is not reserved here: it ended, or never was")
        if reservation.settled:
            raise KvRefused(f"request {request.hex()} has been settled: {reservation.failure or 'its KV is whole'}")
        return reservation

    def _check(self, frame: LayerFrame, reservation: Reservation) -> None:
        """Names the field, both values and whose they are; the sender's side is the one to change."""
        shape = self._cache.shape
        have, stored = frame.dtype, self._cache.dtype
        if have is not stored and dtype_conversion(have, stored, self._can) is None:
            raise KvRefused(f"{frame}: dtype is {have.label} in the frame, {stored.label} in decode's cache")
        for name, got, want in (
            ("kv_heads", frame.kv_heads, shape.kv_heads),
            ("head_dim", frame.head_dim, shape.head_dim),
        ):
            if got != want:
                raise KvRefused(f"{frame}: {name} is {got} in the frame, {want} in decode's cache")
        if frame.layer >= shape.layers:
            raise KvRefused(f"{frame}: layer {frame.layer} of a model with {shape.layers}")
        if frame.end_token > reservation.prompt_tokens:
            raise KvRefused(f"{frame}: beyond the {reservation.prompt_tokens} prompt tokens reserved")

    def check_integrity(self) -> None:
        """Every reservation holds its own blocks, every other block is free. Raises ValueError."""
        with self._lock:
            self._cache.check_integrity()
            held = sum(reservation.table.blocks for reservation in self._reservations.values())
            if held + self._cache.free_blocks != self._cache.blocks:
                raise ValueError(f"{held} blocks reserved and {self._cache.free_blocks} free, of {self._cache.blocks}")


def _nothing() -> None:
    return
