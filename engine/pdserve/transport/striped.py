"""Several streams as one: heads, control frames and small bodies go by the first, large bodies over all of them.

A body of at least STRIPED_FROM bytes is cut into pieces of STRIPE_BYTES, the last one shorter; piece i goes over stream
i mod n. Frames keep the order of the first stream, and the checksum follows the pieces in order while later ones arrive.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from pdserve.transport.stream import IN_A_FRAME, PeerGone, Route, Stream
from pdwire import LayerFrame

STRIPE_BYTES = 1 << 20
STRIPED_FROM = 2 << 20
MAX_STREAMS = 16

Piece: TypeAlias = list[memoryview]
Work: TypeAlias = Callable[[Stream], Iterator[None]]
Results: TypeAlias = "queue.SimpleQueue[PeerGone | None]"

_DRAIN_BYTES = 256 * 1024


class Lane:
    """A further stream, moved by a thread of its own: whichever calls `run`, or the one that `start` makes."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._inbox: queue.SimpleQueue[tuple[Work, Results] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run_and_close, name=name, daemon=True)
        self._thread.start()

    def _run_and_close(self) -> None:
        self.run()
        self.stream.close()

    def run(self) -> None:
        """Until `end`."""
        while (task := self._inbox.get()) is not None:
            work, results = task
            try:
                for _ in work(self.stream):
                    results.put(None)
            except PeerGone as error:
                results.put(error)

    def do(self, work: Work) -> Results:
        """A result for each time that work yields, or the error that ended it."""
        results: Results = queue.SimpleQueue()
        self._inbox.put((work, results))
        return results

    def end(self) -> None:
        """Any thread may call it, and more than once. A thread that `start` made has ended on return."""
        self._inbox.put(None)
        self.stream.shut()
        if self._thread is not None:
            self._thread.join()


class Striped(Stream):
    """main: the first stream. lanes: the others, in order."""

    def __init__(self, main: Stream, lanes: Sequence[Lane], *, tick_s: float) -> None:
        self.peer = main.peer
        self._main = main
        self._lanes = lanes
        self._tick_s = tick_s

    # Bodies.

    def take(
        self,
        views: Sequence[memoryview],
        deadline: float,
        idle: Callable[[], None],
        show: Callable[[memoryview], None],
    ) -> None:
        if sum(view.nbytes for view in views) < STRIPED_FROM:
            self._main.take(views, deadline, idle, show)
            return
        pieces = cut(views)
        results = self._to_lanes(lambda mine: lambda stream: _fill(stream, mine, deadline), pieces)
        for number, piece in enumerate(pieces):
            lane = number % self._count
            if lane == 0:
                self._main.scatter(piece, deadline, IN_A_FRAME, idle, show)
            else:
                self._wait(lane, results[lane - 1], deadline, idle)
                for view in piece:
                    show(view)

    def leave(
        self,
        size: int,
        scratch: memoryview,
        deadline: float,
        idle: Callable[[], None],
        show: Callable[[memoryview], None],
    ) -> bool:
        if size < STRIPED_FROM:
            return self._main.leave(size, scratch, deadline, idle, show)
        shares = [0] * self._count
        for number, start in enumerate(range(0, size, STRIPE_BYTES)):
            shares[number % self._count] += min(STRIPE_BYTES, size - start)
        results = [
            lane.do(lambda stream, share=share: _drain(stream, share, deadline))  # type: ignore[misc]
            for lane, share in zip(self._lanes, shares[1:], strict=True)
        ]
        self._main.leave(shares[0], scratch, deadline, idle, lambda piece: None)
        for lane, result in enumerate(results, 1):
            self._wait(lane, result, deadline, idle)
        return False

    def write_layer(
        self, before: list[memoryview], frame: LayerFrame, buffers: list[memoryview], route: Route, deadline: float
    ) -> None:
        if frame.body_bytes < STRIPED_FROM:
            self._main.write_layer(before, frame, buffers, route, deadline)
            return
        head, *body = buffers
        pieces = cut(body)
        results = self._to_lanes(lambda mine: lambda stream: _pour(stream, mine, deadline), pieces)
        self._main.write([*before, head, *(view for piece in pieces[:: self._count] for view in piece)], deadline)
        for lane, result in enumerate(results, 1):
            self._wait(lane, result, deadline, lambda: None)

    @property
    def _count(self) -> int:
        return len(self._lanes) + 1

    def _to_lanes(self, work: Callable[[list[Piece]], Work], pieces: list[Piece]) -> list[Results]:
        """Each lane gets its share of the pieces."""
        return [lane.do(work(pieces[number :: self._count])) for number, lane in enumerate(self._lanes, 1)]

    def _wait(self, lane: int, results: Results, deadline: float, idle: Callable[[], None]) -> None:
        while True:
            left = deadline - time.monotonic()
            try:
                error = results.get(timeout=max(0.0, min(left, self._tick_s)))
            except queue.Empty:
                if left <= 0:
                    raise PeerGone(f"too slow {IN_A_FRAME}, on stream {lane}") from None
                idle()
                continue
            if error is not None:
                raise PeerGone(f"stream {lane}: {error}")
            return

    # The rest is the first stream's.

    def scatter(
        self,
        views: Sequence[memoryview],
        deadline: float,
        what: str,
        idle: Callable[[], None],
        show: Callable[[memoryview], None],
    ) -> None:
        self._main.scatter(views, deadline, what, idle, show)

    def wait_readable(self, deadline: float, what: str, idle: Callable[[], None]) -> None:
        self._main.wait_readable(deadline, what, idle)

    def write_some(self, buffers: list[memoryview]) -> list[memoryview]:
        return self._main.write_some(buffers)

    def write(self, buffers: list[memoryview], deadline: float) -> None:
        self._main.write(buffers, deadline)

    def end_writing(self) -> None:
        self._main.end_writing()

    def linger(self, seconds: float) -> None:
        self._main.linger(seconds)

    def shut(self) -> None:
        self._main.shut()
        for lane in self._lanes:
            lane.stream.shut()

    def close(self) -> None:
        for lane in self._lanes:
            lane.end()
        self._main.close()


def cut(views: Sequence[memoryview]) -> list[Piece]:
    """Pieces of STRIPE_BYTES, each of as many views as it takes."""
    pieces: list[Piece] = [[]]
    room = STRIPE_BYTES
    for whole in views:
        view = whole
        while view.nbytes:
            if not room:
                pieces.append([])
                room = STRIPE_BYTES
            pieces[-1].append(view[:room])
            view, room = view[room:], room - min(room, view.nbytes)
    return pieces


def _fill(stream: Stream, pieces: list[Piece], deadline: float) -> Iterator[None]:
    for piece in pieces:
        stream.scatter(piece, deadline, IN_A_FRAME, _nothing, _unseen)
        yield


def _drain(stream: Stream, size: int, deadline: float) -> Iterator[None]:
    stream.leave(size, memoryview(bytearray(_DRAIN_BYTES)), deadline, _nothing, _unseen)
    yield


def _pour(stream: Stream, pieces: list[Piece], deadline: float) -> Iterator[None]:
    stream.write([view for piece in pieces for view in piece], deadline)
    yield


def _nothing() -> None:
    return


def _unseen(piece: memoryview) -> None:
    return
