"""What crosses, for somebody who wants to look at it: `POST /v1/capture` and `pdctl kv capture`.

A capture is the frames that prefill said of whole transfers, from HELLO to BYE, as the `file` transport replays them.
It is taken at the sink, after a frame has verified and whatever the transport: encrypted ones too. While nobody
captures, it costs one comparison a frame. Transport threads never wait for the reader: one that is too slow ends the
capture, and the end says so.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence

from pdserve.errors import EngineBusy
from pdserve.kv_receiver import KvReceiver
from pdserve.transport.segment import Segment
from pdwire import Abort, AbortCode, Bye, FirstToken, Frame, Hello, LayerFrame, Offer, Places, Role, seal
from pdwire.kvshape import check_frame

UNREAD_BYTES = 64 << 20
"""That wait for a reader."""


class Recording:
    """One capture on its way to its reader. Iterate it; `close` ends it early."""

    def __init__(self, first: Hello, *, max_bytes: int, max_transfers: int, deadline: float) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._left = max_bytes
        self._transfers = max_transfers
        self._deadline = deadline
        self._unread = 0
        self._lock = threading.Lock()
        self._open: set[bytes] = set()
        """Requests of which a frame is in it and no end."""
        self._over = False
        self._record = first.record
        self._put(first)

    @property
    def over(self) -> bool:
        return self._over or time.monotonic() > self._deadline

    def fits(self, frame: LayerFrame) -> bool:
        """Whether it has the form that the HELLO in front of it says."""
        return check_frame(frame, self._record, frame.end_token) is None

    def layer(self, frame: LayerFrame, views: Sequence[memoryview]) -> None:
        with self._lock:
            if self._over:
                return
            if frame.body_bytes > self._left or self._unread + frame.body_bytes > UNREAD_BYTES:
                full = frame.body_bytes > self._left
                self._end("the capture is as large as it may be" if full else "its reader is too slow")
                return
            self._open.add(frame.request)
            self._put(frame, views)

    def last(self, frame: FirstToken | Abort) -> None:
        """The end of a request, if any of it is in here."""
        with self._lock:
            if self._over or frame.request not in self._open:
                return
            self._open.discard(frame.request)
            self._put(frame)
            self._transfers -= 1
            if not self._transfers:
                self._end("as many transfers are in it as were asked for")

    def close(self, reason: str) -> None:
        with self._lock:
            self._end(reason)

    def __iter__(self) -> Iterator[bytes]:
        """Whole frames, the last of them BYE. Waits for them, at most until the deadline."""
        while True:
            try:
                piece = self._queue.get(timeout=max(0.0, self._deadline - time.monotonic()))
            except queue.Empty:
                self.close("its time is over")
                continue
            if piece is None:
                return
            with self._lock:
                self._unread -= len(piece)
            yield piece

    # Under the lock.

    def _end(self, reason: str) -> None:
        if self._over:
            return
        self._over = True
        for request in self._open:
            self._put(Abort.because(AbortCode.CANCELLED, reason, request))
        self._put(Bye())
        self._queue.put(None)

    def _put(self, frame: Frame, body: Sequence[memoryview] = ()) -> None:
        piece = b"".join(seal(frame, body).buffers)
        self._left -= len(piece)
        self._unread += len(piece)
        self._queue.put(piece)


class CapturingSink:
    """Stands between a transport and the receiver, which does the work. Implements KvSink, LendingSink, GreetedSink."""

    def __init__(self, receiver: KvReceiver) -> None:
        self._receiver = receiver
        self._lock = threading.Lock()
        self._hello: Hello | None = None
        self._recording: Recording | None = None
        self._missed: frozenset[bytes] = frozenset()
        """Requests that were under way when the capture began, so that their first frames are not in it; and those of
        another prefill, whose KV has another form than the one HELLO of a capture says."""
        self._views: dict[bytes, Sequence[memoryview]] = {}

    def record(self, *, max_bytes: int, max_transfers: int, seconds: float) -> Recording:
        """Raises EngineBusy when somebody captures already, or no prefill has ever connected."""
        with self._lock:
            if self._recording is not None and not self._recording.over:
                raise EngineBusy("somebody is capturing already; one at a time")
            if self._hello is None:
                raise EngineBusy("no prefill process has connected yet; send a request first")
            self._missed = frozenset(one.request for one in self._receiver.reservations if one.figures.first_frame_at)
            self._recording = Recording(
                self._hello,
                max_bytes=max_bytes,
                max_transfers=max_transfers,
                deadline=time.monotonic() + seconds,
            )
            return self._recording

    # GreetedSink

    def greeted(self, hello: Hello) -> None:
        """Of the prefill that connected last; a pair has one."""
        with self._lock:
            self._hello = Hello(role=Role.PREFILL, record=hello.record, offer=Offer(), converts=hello.converts)

    # LendingSink

    @property
    def segment(self) -> Segment | None:
        return self._receiver.segment

    def lend(self, request: bytes) -> Places:
        return self._receiver.lend(request)

    # KvSink

    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        views = self._receiver.place(frame)
        if (recording := self._wanted(frame.request)) is not None:
            if recording.fits(frame):
                self._views[frame.request] = views
            else:
                with self._lock:
                    self._missed |= {frame.request}
        return views

    def landed(self, frame: LayerFrame) -> None:
        views = self._views.pop(frame.request, None)
        if views is not None and (recording := self._wanted(frame.request)) is not None:
            # Before the receiver hears of it: afterwards the memory may be another request's.
            recording.layer(frame, views)
        self._receiver.landed(frame)

    def first_token(self, done: FirstToken) -> None:
        self._receiver.first_token(done)
        self._finish(done)

    def aborted(self, request: bytes, reason: str) -> None:
        self._receiver.aborted(request, reason)
        self._finish(Abort.because(AbortCode.CANCELLED, reason, request))

    def _wanted(self, request: bytes) -> Recording | None:
        recording = self._recording
        if recording is None or request in self._missed:
            return None
        if recording.over:
            recording.close("its time is over")
            self._recording = None
            return None
        return recording

    def _finish(self, frame: FirstToken | Abort) -> None:
        self._views.pop(frame.request, None)
        if (recording := self._wanted(frame.request)) is not None:
            recording.last(frame)
