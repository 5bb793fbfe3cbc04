"""A pdwire Connection on a Stream: what both sides of the tcp transport share.

One thread reads; any thread sends. `lock` guards the Connection and is never held while a byte moves. A KV frame is
written by the thread that pushes it, one at a time. A control frame is queued where its place in the order of frames is
decided, and written by whoever can do so without waiting; so neither the reader nor an engine's abort ever waits for
a peer that does not read.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence

from pdserve.transport.meter import METER
from pdserve.transport.stream import IN_A_FRAME, PeerGone, Stream
from pdwire import (
    CONNECTION,
    HEAD_BYTES,
    MAX_HANDSHAKE_BYTES,
    UNPROVEN,
    Abort,
    AbortCode,
    Bye,
    Connection,
    ConnectionState,
    Frame,
    Incoming,
    LayerFrame,
    LocalProtocolError,
    Sealed,
    seal,
)

MAX_QUEUED_BYTES = 1 << 20
"""Control frames that a peer may leave unread. A well-behaved one never has more than a few hundred bytes waiting."""

LINGER_S = 1.0
SCRATCH_BYTES = 256 * 1024


class Late(Exception):
    """The caller's deadline passed before the first byte of its frame was sent."""


class Endpoint:
    """over: why nothing more can be sent, once it is so; changes are announced on `lock`."""

    def __init__(self, stream: Stream, connection: Connection) -> None:
        self.stream = stream
        self.connection = connection
        self.lock = threading.Condition()
        self.over: str | None = None
        self._writing = threading.Lock()
        self._shut = False
        """Not even what is queued may be written any more."""
        self._queue: list[memoryview] = []
        self._queued = 0
        self._reserved = 0
        self._ticked = time.monotonic()
        self._head = memoryview(bytearray(HEAD_BYTES))
        stranger = connection.handshake is not None
        self._scratch = memoryview(bytearray(MAX_HANDSHAKE_BYTES if stranger else SCRATCH_BYTES))

    # Opening, before any other thread has to do with it.

    def open(self, deadline: float, place: Callable[[Incoming], Sequence[memoryview] | None]) -> None:
        """Both ends prove who they are, where they must, and say HELLO. Raises as `receive` does."""
        connection = self.connection
        while connection.state is not ConnectionState.OPEN:
            stranger = connection.state in UNPROVEN
            with self.lock:
                self._check_alive()
                frame = connection.opening
            if frame is None:
                self.receive(deadline, self.keep_up, place)
            else:
                self._say(frame, deadline)
            if stranger and connection.state not in UNPROVEN:
                self._scratch = memoryview(bytearray(SCRATCH_BYTES))
                with self._writing:
                    self.stream = self.stream.proven(connection)

    def _say(self, frame: Frame, deadline: float) -> None:
        with self._writing:
            with self.lock:
                self._check_alive()
                buffers = [memoryview(buffer) for buffer in self.connection.send(seal(frame))]
            self.stream.write(buffers, deadline)

    # Sending.

    def post(self, frame: Frame) -> bool:
        """Sends a control frame without waiting. False: the state of things no longer allows it, or all is over."""
        with self.lock:
            if self.over is not None:
                return False
            try:
                self._enqueue(frame)
            except LocalProtocolError:
                return False
        self._flush()
        return True

    def keep_up(self) -> None:
        """Sends what the protocol asks for by itself: answers to ABORT, credit, signs of life."""
        with self.lock:
            if self.over is not None:
                return
            for frame in self.connection.owed():
                self._enqueue(frame)
        self._flush()

    def send(self, sealed: Sealed, deadline: float, unless: Callable[[], None]) -> None:
        """Sends a frame after all that is queued. unless: asked under the lock until the frame's turn; may raise.

        Raises Late, LocalProtocolError or PeerGone. deadline: for the first byte; the frame then has frame_s.
        """
        size = sealed.length if isinstance(sealed.frame, LayerFrame) else 0
        if self.connection.credit - self._reserved < size:
            self._flush()  # what decode has not seen yet, it gives no credit for
        self._reserve_credit(size, deadline, unless)
        if not self._writing.acquire(timeout=max(0.0, deadline - time.monotonic())):
            self._return_credit(size)
            raise Late("the connection was busy with other frames")
        try:
            with self.lock:
                self._return_credit(size)
                self._check_alive()
                unless()
                buffers = [memoryview(buffer) for buffer in self.connection.send(sealed)]
                frame = sealed.frame if isinstance(sealed.frame, LayerFrame) else None
                route = self.stream.route(frame) if frame else ()
                before = self._take_queue()
            until = time.monotonic() + self.connection.limits.frame_s
            if frame is None:
                self.stream.write(before + buffers, until)
            else:
                self.stream.write_layer(before, frame, buffers, route, until)
        except PeerGone as error:
            self.fail(str(error))
            raise
        finally:
            self._writing.release()
        if self._queue:
            self._flush()

    def _reserve_credit(self, size: int, deadline: float, unless: Callable[[], None]) -> None:
        """So that threads that wait for their turn to write do not all count on the same credit."""
        began = None
        with self.lock:
            while True:
                self._check_alive()
                unless()
                if self.connection.credit - self._reserved >= size:
                    self._reserved += size
                    if began is not None:
                        METER.waited_for_credit(time.monotonic() - began)
                    return
                began = began or time.monotonic()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Late("the peer gave no credit")
                self.lock.wait(left)

    def _return_credit(self, size: int) -> None:
        with self.lock:
            self._reserved -= size
            self.lock.notify_all()

    def _enqueue(self, frame: Frame) -> None:
        for buffer in self.connection.send(seal(frame)):
            self._queue.append(memoryview(buffer))
            self._queued += len(buffer)
        if self._queued > MAX_QUEUED_BYTES:
            self.fail("does not read what it is sent")

    def _take_queue(self) -> list[memoryview]:
        queue, self._queue, self._queued = self._queue, [], 0
        return queue

    def _flush(self) -> None:
        """Writes the queue as far as the socket takes it. A writer that is just busy does it when it is done."""
        while (self._queue or self.stream.holds) and self._writing.acquire(blocking=False):
            try:
                with self.lock:
                    queue = self._take_queue()
                    if self._shut:
                        return
                if left := self.stream.write_some(queue):
                    with self.lock:
                        self._queue[:0] = left
                        self._queued += sum(buffer.nbytes for buffer in left)
                    return
            except PeerGone as error:
                self.fail(str(error))
            finally:
                self._writing.release()

    # Receiving, in one thread.

    def receive(
        self,
        deadline: float | None,
        on_tick: Callable[[], None],
        place: Callable[[Incoming], Sequence[memoryview] | None],
        note: Callable[[Frame], None] | None = None,
    ) -> Frame:
        """The next frame, its body in the views that `place` gives, or dropped when it gives None.

        deadline: for the frame to begin and to end; without one, it may begin at any time and its body has frame_s.
        note: called with the frame under the lock, so that nobody sees its effect on the Connection without it.
        Raises PeerGone and what pdwire raises.
        """
        if time.monotonic() - self._ticked >= self.connection.limits.tick_s:
            self._ticked = time.monotonic()
            on_tick()
        if deadline is None:
            # A head that comes by drops is bounded as silence is: by idle_s since the last whole frame, which on_tick
            # looks after, whether bytes come or not.
            self.stream.read(self._head, math.inf, "between frames", on_tick)
            what, end = IN_A_FRAME, time.monotonic() + self.connection.limits.frame_s
        else:
            what, end = "in the handshake", deadline
            self.stream.read(self._head, end, what, self.keep_up)
        with self.lock:
            incoming = self.connection.begin(self._head)
        if incoming.layer is None:
            self._read_control(incoming, end, what)
        elif views := place(incoming):
            self.stream.take(views, end, self.keep_up, incoming.update)
        elif not self.stream.leave(incoming.head.body_bytes, self._scratch, end, self.keep_up, incoming.update):
            incoming.skip()
        with self.lock:
            frame = incoming.finish()
            if note is not None:
                note(frame)
            self.lock.notify_all()
        if isinstance(frame, Abort) and frame.request == CONNECTION:
            raise PeerGone(f"given up by the peer: {frame.reason}", frame.code)
        if isinstance(frame, Bye):
            raise PeerGone("closed by the peer")
        return frame

    def _read_control(self, incoming: Incoming, deadline: float, what: str) -> None:
        body = self._scratch[: incoming.head.body_bytes]
        self.stream.read(body, deadline, what, self.keep_up)
        incoming.update(body)

    # The end.

    def fail(self, reason: str) -> None:
        """Nothing more is sent, and whoever waits is woken. The first reason stays. Any thread may call it."""
        with self.lock:
            if self.over is None:
                self.over = reason
                self.connection.lost()
            self._shut = True
            self.lock.notify_all()
        self.stream.shut()

    def give_up(self, code: AbortCode, reason: object) -> None:
        """Tells the peer why, as far as it still listens, and sends nothing more."""
        self._last(Abort.because(code, reason), str(reason))

    def bye(self) -> None:
        """A clean end from this side. The reader goes on until the peer closes too."""
        self._last(Bye(), "closed by this side")

    def _last(self, frame: Frame, reason: str) -> None:
        with self.lock:
            if self.over is None:
                with contextlib.suppress(LocalProtocolError):
                    self._enqueue(frame)
                self.over = reason
            self.lock.notify_all()
        self._flush()
        self.stream.end_writing()

    def close(self) -> None:
        """By the reading thread, as the last thing."""
        with self.lock:
            self.over = self.over or "closed by this side"
        self.stream.linger(LINGER_S)
        self.stream.shut()
        with self._writing:
            self._shut = True
            self.stream.close()

    def _check_alive(self) -> None:
        if self.over is not None:
            raise PeerGone(self.over)
