"""A TCP link between two ends that can flip a byte, cut, stall, or drip, at a chosen byte of what the client says."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from urllib.parse import urlsplit


class BadLink:
    """flip: offset of the byte to alter. cut: after how many bytes both ends are reset. stall: after how many nothing
    more goes through, either way. Offsets count the client's bytes since it connected. said: those bytes, as they came;
    answered: what the other end said. drip_s: once set, what the client says goes on byte by byte, so many seconds apart.
    dripped: how many have."""

    def __init__(
        self, target: str, *, flip: int | None = None, cut: int | None = None, stall: int | None = None
    ) -> None:
        url = urlsplit(target)
        assert url.hostname is not None and url.port is not None
        self._target = (url.hostname, url.port)
        self._flip, self._cut, self._stall = flip, cut, stall
        self.said, self.answered = bytearray(), bytearray()
        self._stalled = threading.Event()
        self.drip_s = 0.0
        self.dripped = 0
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> BadLink:
        self._start(self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sock in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self._listener.accept()
            server = socket.create_connection(self._target, timeout=5)
            server.settimeout(None)
            self._sockets += [client, server]
            self._start(self._back, server, client)
            self._forth(client, server)

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        offset = 0
        with contextlib.suppress(OSError):
            while data := bytearray(client.recv(65536)):
                self.said += data
                if self._flip is not None and offset <= self._flip < offset + len(data):
                    data[self._flip - offset] ^= 0x10
                if self._cut is not None and offset + len(data) > self._cut:
                    server.sendall(data[: self._cut - offset])
                    break
                if self._stall is not None and offset + len(data) > self._stall:
                    server.sendall(data[: max(0, self._stall - offset)])
                    self._stalled.set()
                    return
                if self.drip_s:
                    self._drip(server, data)
                else:
                    server.sendall(data)
                offset += len(data)
        for sock in (client, server):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _drip(self, server: socket.socket, data: bytearray) -> None:
        for at in range(len(data)):
            server.sendall(data[at : at + 1])
            self.dripped += 1
            time.sleep(self.drip_s)

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                self.answered += data
                if not self._stalled.is_set():
                    client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
