"""A unix stream for heads and control frames; bodies lie in memory that decode shares, where prefill writes them.

After decode's HELLO comes one byte. If decode lends its memory, two descriptors are attached: the segment, and the
writing end of a pipe on which nothing is ever written. Prefill holds that end for as long as it may write to the
segment; the kernel closes it when the process has gone, so its end is the proof that memory can be used again.
"""

from __future__ import annotations

import array
import os
import select
import socket
import time
from collections.abc import Callable, Sequence

import numpy as np

from pdserve.transport.segment import Segment
from pdserve.transport.stream import PeerGone, Route, Stream
from pdwire import LayerFrame, LayerHead, LocalProtocolError, Places

LENT, INLINE = b"\x01", b"\x00"
SLICE_BYTES = 1 << 20
HOLD_S, HOLD_BYTES, HOLD_HEADS = 0.0005, 1 << 20, 64
"""Waking decode costs more than copying a small frame. In a burst its heads go out together: when so much time has
passed since the last write, or so many bytes of bodies, or frames, wait; with whatever else is written; or at a tick.
"""

_COPY_WITHOUT_GIL = 64 * 1024
"""Bytes from which copying is worth giving the interpreter to other threads."""


class LendingStream(Stream):
    """Decode's end. A body is where it belongs before its head comes."""

    def __init__(self, sock: socket.socket, peer: str, *, tick_s: float) -> None:
        super().__init__(sock, peer, tick_s=tick_s)
        self._held: int | None = None
        """The reading end of the pipe that prefill holds."""

    @property
    def lending(self) -> bool:
        return self._held is not None

    def lend(self, segment: Segment | None) -> None:
        """Gives the peer what it needs to write into the segment. None: bodies come by this stream."""
        if segment is None:
            self._hand_over(INLINE, [])
            return
        reading, writing = os.pipe()
        try:
            self._hand_over(LENT, [segment.fd, writing])
            self._held, reading = reading, -1
        finally:
            os.close(writing)
            if reading >= 0:
                os.close(reading)

    def _hand_over(self, mark: bytes, fds: list[int]) -> None:
        try:
            socket.send_fds(self._socket, [mark], fds, socket.MSG_DONTWAIT)
        except OSError as error:
            raise PeerGone(f"write failed: {error}") from None

    def take(
        self,
        views: Sequence[memoryview],
        deadline: float,
        idle: Callable[[], None],
        show: Callable[[memoryview], None],
    ) -> None:
        if not self.lending:
            super().take(views, deadline, idle, show)
            return
        for view in views:
            show(view)

    def leave(
        self,
        size: int,
        scratch: memoryview,
        deadline: float,
        idle: Callable[[], None],
        show: Callable[[memoryview], None],
    ) -> bool:
        return not self.lending and super().leave(size, scratch, deadline, idle, show)

    def let_go(self, seconds: float) -> bool:
        """Waits until the peer cannot write to the segment any more. False: it still can."""
        if self._held is None:
            return True
        held = select.poll()
        held.register(self._held, select.POLLIN)
        return bool(held.poll(1000 * seconds))

    def close(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None
        super().close()


class WritingStream(Stream):
    """Prefill's end. Bodies are copied to where decode said, then the head follows."""

    def __init__(self, sock: socket.socket, peer: str, *, tick_s: float) -> None:
        super().__init__(sock, peer, tick_s=tick_s)
        self._segment: Segment | None = None
        self._pipe: int | None = None
        self._heads: list[memoryview] = []
        self._held_bytes = 0
        self._wrote_at = 0.0
        self.places: dict[bytes, Places] = {}
        """Of the requests that decode has located."""

    @property
    def writes(self) -> bool:
        """Whether bodies go to shared memory at all."""
        return self._segment is not None

    def accept(self, deadline: float) -> bool:
        """What decode lends, after its HELLO. False: it says a frame instead, which is still to be read."""
        while True:
            try:
                if self._socket.recv(1, socket.MSG_PEEK) not in (LENT, INLINE, b""):
                    return False
                mark, fds = _receive_fds(self._socket)
                break
            except BlockingIOError:
                self.wait_readable(deadline, "in the handshake", lambda: None)
            except OSError as error:
                raise PeerGone(f"read failed: {error}") from None
        if mark == LENT and len(fds) == 2:
            try:
                self._pipe = fds[1]
                self._segment = Segment.attach(fds[0])
            except (OSError, ValueError) as error:
                raise PeerGone(f"cannot map the memory that the peer lends: {error}") from None
            return True
        for fd in fds:
            os.close(fd)
        if mark != INLINE:
            raise PeerGone("closed by the peer in the handshake" if not mark else "lends no memory that can be used")
        return True

    def route(self, frame: LayerFrame) -> Route:
        if self._segment is None:
            return ()
        places = self.places.get(frame.request)
        if places is None:
            raise LocalProtocolError(f"{frame}: decode has not said where it goes")
        spans, size = places.spans(frame), self._segment.size
        for offset, length in spans:
            if offset + length > size:
                raise LocalProtocolError(f"{frame} would go to byte {offset + length - 1} of {size} that decode lends")
        return spans

    def write_layer(
        self, before: list[memoryview], frame: LayerFrame, buffers: list[memoryview], route: Route, deadline: float
    ) -> None:
        if self._segment is None:
            super().write_layer(before, frame, buffers, route, deadline)
            return
        if before:
            self.write(before, deadline)
        head = LayerHead(frame)
        _copy(buffers, self._segment.view, route, head.update)
        self._heads.append(memoryview(head.finish()))
        self._held_bytes += frame.body_bytes
        late = time.monotonic() - self._wrote_at >= HOLD_S
        if late or self._held_bytes >= HOLD_BYTES or len(self._heads) >= HOLD_HEADS:
            self.write([], deadline)

    @property
    def holds(self) -> bool:
        return bool(self._heads)

    def write(self, buffers: list[memoryview], deadline: float) -> None:
        super().write(self._take_heads() + buffers, deadline)

    def write_some(self, buffers: list[memoryview]) -> list[memoryview]:
        heads = self._take_heads()
        left = super().write_some(heads + buffers)
        mine = len(left) - len(buffers)
        if mine <= 0:
            return left
        self._heads = left[:mine]
        return buffers

    def _take_heads(self) -> list[memoryview]:
        heads, self._heads, self._held_bytes = self._heads, [], 0
        self._wrote_at = time.monotonic()
        return heads

    def close(self) -> None:
        """No thread is writing, and none will: decode may use its memory for something else."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        super().close()


def _copy(body: Sequence[memoryview], memory: memoryview, spans: Route, show: Callable[[memoryview], None]) -> None:
    """The body's pieces, in order, into the spans of memory, in order; both have the same bytes in all.

    show: called with each slice of the body while it is still in the cache from being copied.
    """
    pieces = iter(body)
    piece = next(pieces)
    for offset, size in spans:
        while size:
            if not piece.nbytes:
                piece = next(pieces)
                continue
            count = min(size, piece.nbytes, SLICE_BYTES)
            _copy_piece(piece[:count], memory[offset : offset + count])
            show(piece[:count])
            piece, offset, size = piece[count:], offset + count, size - count


def _copy_piece(source: memoryview, target: memoryview) -> None:
    if source.nbytes < _COPY_WITHOUT_GIL:
        target[:] = source
    else:
        np.copyto(np.frombuffer(target, np.uint8), np.frombuffer(source, np.uint8))


def _receive_fds(sock: socket.socket) -> tuple[bytes, list[int]]:
    fds = array.array("i")
    data, ancillary, _, _ = sock.recvmsg(1, socket.CMSG_SPACE(2 * fds.itemsize), socket.MSG_CMSG_CLOEXEC)
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return data, list(fds)
