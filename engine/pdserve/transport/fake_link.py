"""The bad network of the fake transport: TCP connections whose frames meet what a script says.

One thread serves all connections of a link. Bytes pass on as they come; only the 64 bytes of a head are waited for,
since they decide, and a frame that is to come later or twice is kept whole. What is not made of frames passes as it is.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable

from pdserve.transport.fake_way import Way
from pdserve.transport.faults import Fault, Passing, Script
from pdwire import Role
from pdwire.header import Head

log = logging.getLogger("pdserve.transport.fake")

_PIECE = 256 * 1024
_MOST_WAITING = 4 << 20
"""Bytes that wait for a peer who does not read, before the other is no longer read from."""


class _Pair:
    """One connection: two sockets and two ways between them."""

    def __init__(self, prefill: socket.socket, decode: socket.socket, forth: Way, back: Way) -> None:
        self.ends = ((prefill, decode, forth), (decode, prefill, back))
        """From, to, way."""

    def read(self, source: socket.socket) -> None:
        """Raises OSError when that side is gone."""
        way = next(way for start, _, way in self.ends if start is source)
        with contextlib.suppress(BlockingIOError):
            data = source.recv(_PIECE)
            if data:
                way.take(data)
            else:
                way.end()
        if way.stalled:
            for _, _, each in self.ends:
                each.stalled = True

    def write(self) -> None:
        """Whatever is due. Raises OSError when a side is gone, or is to be."""
        now = time.monotonic()
        for _, target, way in self.ends:
            way.release(now)
            way.blocked = False
            try:
                while way.waiting and way.waiting[0][0] <= now:
                    due, piece = way.waiting[0]
                    sent = target.send(piece)
                    if sent == piece.nbytes:
                        way.waiting.popleft()
                    else:
                        way.waiting[0] = due, piece[sent:]
            except BlockingIOError:
                way.blocked = True
            if way.cut and not way.waiting:
                raise ConnectionResetError("cut by the script")
            if way.ended and not way.waiting:
                target.shutdown(socket.SHUT_WR)

    @property
    def over(self) -> bool:
        """Both sides have ended and heard each other out; or one has, of a link that stalls."""
        ended = [way.ended and not way.waiting for _, _, way in self.ends]
        return all(ended) or (any(ended) and self.ends[0][2].stalled)

    def interests(self) -> dict[socket.socket, int]:
        """What to wait for on each socket."""
        wanted = {source: 0 for source, _, _ in self.ends}
        for source, target, way in self.ends:
            if not way.ended and way.bytes_waiting < _MOST_WAITING:
                wanted[source] |= selectors.EVENT_READ
            if way.blocked:
                wanted[target] |= selectors.EVENT_WRITE
        return wanted

    @property
    def due(self) -> float | None:
        return min((due for _, _, way in self.ends if (due := way.due) is not None), default=None)

    def reset(self) -> None:
        """As a cut wire looks from both ends."""
        for source, _, _ in self.ends:
            with contextlib.suppress(OSError):
                source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            source.close()

    def close(self) -> None:
        for source, _, _ in self.ends:
            source.close()


class FakeLink:
    """Takes connections on `front` and carries them to `target` until closed. front: listening; it is closed too."""

    def __init__(self, front: socket.socket, target: tuple[str, int], script: Script) -> None:
        self._front = front
        self._target = target
        self._script = script
        self._pairs: dict[socket.socket, _Pair] = {}
        self._connections = 0
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        front.setblocking(False)
        self._selector.register(front, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="fake-link", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Both ends of every connection see it closed."""
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
        self._thread.join(5.0)
        self._wake.close()

    def _run(self) -> None:
        try:
            while self._serve():
                pass
        finally:
            for pair in set(self._pairs.values()):
                pair.close()
            self._selector.close()
            self._front.close()
            self._woken.close()

    def _serve(self) -> bool:
        """False: closed."""
        dues = [due for pair in set(self._pairs.values()) if (due := pair.due) is not None]
        wait = max(0.0, min(dues) - time.monotonic()) if dues else None
        ready = [(key.fileobj, events) for key, events in self._selector.select(wait)]
        touched = {pair for pair in self._pairs.values() if pair.due is not None}
        for source, events in ready:
            if source is self._woken:
                return False
            if source is self._front:
                self._accept()
            elif isinstance(source, socket.socket) and (pair := self._pairs.get(source)) is not None:
                touched.add(pair)
                if events & selectors.EVENT_READ:
                    self._attempt(pair, lambda source=source, pair=pair: pair.read(source))  # type: ignore[misc]
        for pair in touched:
            self._attempt(pair, pair.write)
            self._follow(pair)
        return True

    def _attempt(self, pair: _Pair, work: Callable[[], None]) -> None:
        if pair.ends[0][0] not in self._pairs:
            return
        try:
            work()
        except OSError:
            self._forget(pair)
            pair.reset()

    def _follow(self, pair: _Pair) -> None:
        """Tells the selector what the pair now waits for."""
        if pair.ends[0][0] not in self._pairs:
            return
        if pair.over:
            self._forget(pair)
            pair.close()
            return
        for sock, events in pair.interests().items():
            known = sock in self._selector.get_map()
            if events and known:
                self._selector.modify(sock, events)
            elif events:
                self._selector.register(sock, events)
            elif known:
                self._selector.unregister(sock)

    def _forget(self, pair: _Pair) -> None:
        for sock, _, _ in pair.ends:
            del self._pairs[sock]
            if sock in self._selector.get_map():
                self._selector.unregister(sock)

    def _accept(self) -> None:
        try:
            prefill, _ = self._front.accept()
        except OSError:
            return
        try:
            decode = socket.create_connection(self._target, timeout=5.0)
        except OSError as error:
            log.warning("the listener behind the link cannot be reached: %s", error)
            prefill.close()
            return
        for sock in (prefill, decode):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number, self._connections = self._connections, self._connections + 1
        pair = _Pair(prefill, decode, self._way(Role.PREFILL, number), self._way(Role.DECODE, number))
        self._pairs |= {prefill: pair, decode: pair}
        self._follow(pair)

    def _way(self, role: Role, connection: int) -> Way:
        said = 0

        def judge(head: Head) -> Fault | None:
            nonlocal said
            number, said = said, said + 1
            return self._script.judge(Passing(role, head.kind, head.request, number, connection, head.length))

        return Way(role, judge)
