"""A stream socket whose every wait ends: exact reads and gathered writes against a deadline, in plain threads.

One thread may read while another writes. Both wait inside the kernel, which fills or empties a whole slice for one call,
but never longer than `tick_s`; a reader then calls `idle`, so that its thread can do what time asks of it. It does so
also where bytes keep coming, or a peer that sends one for each tick would keep every deadline from being looked at.
Deadlines are `time.monotonic()` seconds. Everything that ends the connection is PeerGone, with the reason in words.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pdwire import AbortCode, Connection, LayerFrame

if TYPE_CHECKING:
    from pdserve.transport.security import Guard

GATHER = 1024
"""Buffers in one sendmsg or recvmsg: Linux's IOV_MAX."""

SLICE_BYTES = 1 << 20
"""Bytes read before they are shown to the checksum: few enough to be still in the cache, more are fewer calls."""

IN_A_FRAME = "in the middle of a frame"

Route: TypeAlias = Sequence[tuple[int, int]]
"""(offset, bytes) in shared memory; empty: by the stream."""


class PeerGone(Exception):
    """The connection is of no further use: closed, reset, or too slow. code: the peer's, where it gave it up by ABORT."""

    def __init__(self, message: str, code: AbortCode = AbortCode.INTERNAL) -> None:
        super().__init__(message)
        self.code = code


class Stream:
    """peer: its address, for messages. guard: what protects it once both ends are known; None leaves it as it is."""

    def __init__(self, sock: socket.socket, peer: str, *, tick_s: float, guard: Guard | None = None) -> None:
        sock.setblocking(True)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            sock.setsockopt(socket.SOL_SOCKET, option, _timeval(tick_s))
        self.peer = peer
        self.guard = guard
        self._socket = sock
        self._tick_s = tick_s
        self._idled = time.monotonic()
        self._closing = threading.Lock()
        """A closed descriptor's number may already be another connection's: never shut it down after that."""
        self._readable = select.poll()
        self._readable.register(sock, select.POLLIN)

    @property
    def holds(self) -> bool:
        """Whether it has heads that the next write of anything takes along; the caller sees to it that one comes."""
        return False

    def proven(self, connection: Connection) -> Stream:
        """What carries the bytes from now on: both ends have proved who they are. Raises PeerGone."""
        return self if self.guard is None else self.guard.protect(self, connection)

    def read(self, view: memoryview, deadline: float, what: str, idle: Callable[[], None]) -> None:
        """Fills the view. what: for the message when the deadline passes."""
        self.scatter([view], deadline, what, idle, lambda piece: None)

    def scatter(
        self,
        views: Sequence[memoryview],
        deadline: float,
        what: str,
        idle: Callable[[], None],
        show: Callable[[memoryview], None],
    ) -> None:
        """Fills the views, in order, straight from the socket. show: called with each piece as soon as it is there."""
        todo = [view for view in views if view.nbytes]
        first = 0
        while first < len(todo):
            waited = False
            try:
                count = self._receive(_slice(todo, first))
            except BlockingIOError:
                count, waited = 0, True
            except OSError as error:
                raise PeerGone(f"read failed: {error}") from None
            if not count and not waited:
                raise PeerGone(f"closed by the peer {what}")
            while count:
                view = todo[first]
                taken = min(count, view.nbytes)
                show(view[:taken])
                count -= taken
                if taken == view.nbytes:
                    first += 1
                else:
                    todo[first] = view[taken:]
            self._keep_time(deadline, what, idle if first < len(todo) else None, waited=waited)

    def _keep_time(self, deadline: float, what: str, idle: Callable[[], None] | None, *, waited: bool = False) -> None:
        """After each read. idle: None when that was the last one: what is there whole is not late."""
        now = time.monotonic()
        if now > deadline:
            raise PeerGone(f"too slow {what}")
        if idle is not None and (waited or now - self._idled >= self._tick_s):
            self._idled = now
            idle()

    def take(
        self,
        views: Sequence[memoryview],
        deadline: float,
        idle: Callable[[], None],
        show: Callable[[memoryview], None],
    ) -> None:
        """The body of a LAYER into the views, as `scatter`."""
        self.scatter(views, deadline, IN_A_FRAME, idle, show)

    def leave(
        self,
        size: int,
        scratch: memoryview,
        deadline: float,
        idle: Callable[[], None],
        show: Callable[[memoryview], None],
    ) -> bool:
        """The body of a LAYER that nobody wants. False: it does not come by the stream, and was not shown."""
        while size:
            piece = scratch[:size]
            self.scatter([piece], deadline, IN_A_FRAME, idle, show)
            size -= len(piece)
        return True

    def _receive(self, views: list[memoryview]) -> int:
        if len(views) == 1:
            return self._socket.recv_into(views[0], 0, socket.MSG_WAITALL)
        return self._socket.recvmsg_into(views, 0, socket.MSG_WAITALL)[0]

    def wait_readable(self, deadline: float, what: str, idle: Callable[[], None]) -> None:
        """Until there is something to read, or the end of it."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise PeerGone(f"too slow {what}")
            if self._readable.poll(1000 * min(left, self._tick_s) + 1):
                return
            idle()

    def write_some(self, buffers: list[memoryview]) -> list[memoryview]:
        """Writes what the socket takes without waiting; what is left over."""
        return self._send(buffers, socket.MSG_DONTWAIT)

    def write(self, buffers: list[memoryview], deadline: float) -> None:
        """Writes everything."""
        while buffers := self._send(buffers, 0, deadline):
            if time.monotonic() > deadline:
                raise PeerGone("does not take what it is sent")

    def _send(self, buffers: list[memoryview], flags: int, deadline: float = math.inf) -> list[memoryview]:
        """What is left over when the socket takes no more, or for `tick_s` has not, or the deadline has passed."""
        try:
            while buffers:
                buffers = after(buffers, self._socket.sendmsg(buffers[:GATHER], (), flags))
                if time.monotonic() > deadline:
                    break
        except BlockingIOError:
            pass
        except OSError as error:
            raise PeerGone(f"write failed: {error}") from None
        return buffers

    def route(self, frame: LayerFrame) -> Route:
        """Which way its body will take. Under the lock that orders frames. Raises LocalProtocolError."""
        return ()

    def write_layer(
        self, before: list[memoryview], frame: LayerFrame, buffers: list[memoryview], route: Route, deadline: float
    ) -> None:
        """Writes a LAYER, head and body, after what is queued before it."""
        self.write([*before, *buffers], deadline)

    def end_writing(self) -> None:
        """The peer reads what was written, then the end. Reading goes on."""
        self._shutdown(socket.SHUT_WR)

    def shut(self) -> None:
        """Ends both directions; wakes whoever waits here. Any thread may call it."""
        self._shutdown(socket.SHUT_RDWR)

    def linger(self, seconds: float) -> None:
        """Swallows what the peer still sends, lest a reset destroy our last words on their way."""
        self.end_writing()
        deadline = time.monotonic() + seconds
        with contextlib.suppress(OSError):
            while (left := deadline - time.monotonic()) > 0 and self._readable.poll(1000 * left):
                if not self._socket.recv(64 * 1024, socket.MSG_DONTWAIT):
                    break

    def close(self) -> None:
        """Gives the file descriptor back. No other thread may be reading or writing."""
        with self._closing:
            self._socket.close()

    def _shutdown(self, how: int) -> None:
        with self._closing, contextlib.suppress(OSError):
            self._socket.shutdown(how)


def _timeval(seconds: float) -> bytes:
    """struct timeval of time.h; never zero, which would mean for ever."""
    return struct.pack("@ll", int(seconds), max(1, round(seconds % 1 * 1e6)))


def _slice(views: Sequence[memoryview], first: int) -> list[memoryview]:
    """The next views to fill, together at most SLICE_BYTES."""
    batch: list[memoryview] = []
    room = SLICE_BYTES
    for view in views[first : first + GATHER]:
        batch.append(view[:room])
        room -= view.nbytes
        if room <= 0:
            break
    return batch


def after(buffers: list[memoryview], count: int) -> list[memoryview]:
    """What of the buffers is left after count bytes."""
    for index, buffer in enumerate(buffers):
        if count < buffer.nbytes:
            return [buffer[count:], *buffers[index + 1 :]]
        count -= buffer.nbytes
    return []


def format_address(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def size_buffers(sock: socket.socket, size: int) -> None:
    """Asks for socket buffers of this size, before connect or listen, where the kernel grants it.

    Asking for more than net.core.{w,r}mem_max would be worse than not asking: the kernel grants that maximum and then
    no longer tunes the buffer by itself, which goes up to tcp_{w,r}mem (tcp(7)).
    """
    for option, maximum in ((socket.SO_SNDBUF, "wmem_max"), (socket.SO_RCVBUF, "rmem_max")):
        try:
            granted = int(Path("/proc/sys/net/core", maximum).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        if granted >= size:
            sock.setsockopt(socket.SOL_SOCKET, option, size)
