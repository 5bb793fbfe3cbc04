"""A plain TCP pair on loopback, for contenders that bring a format and no transport of their own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import numpy as np
from tests.bench.kv.workload import Job

from pdserve.transport.stream import size_buffers
from pdserve.transport.tcp import BUFFER_BYTES


def server() -> socket.socket:
    sock = socket.socket()
    size_buffers(sock, BUFFER_BYTES)
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    return sock


def client(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    sock = socket.socket()
    size_buffers(sock, BUFFER_BYTES)
    sock.connect((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def address_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()
    return f"{host}:{port}"


def read(sock: socket.socket, view: memoryview) -> None:
    while view.nbytes:
        count = sock.recv_into(view)
        if not count:
            raise ConnectionError("closed by the peer")
        view = view[count:]


def read_message(sock: socket.socket) -> bytearray:
    length = bytearray(8)
    read(sock, memoryview(length))
    message = bytearray(int.from_bytes(length, "little"))
    read(sock, memoryview(message))
    return message


class FormatReceiver:
    """Reads one message for each frame, and lets `decode` make K and V of it, which are copied to their places."""

    def __init__(self, job: Job, decode: Callable[[bytearray], tuple[memoryview, memoryview]]) -> None:
        self._job = job
        self._decode = decode
        self._server = server()
        self.address = address_of(self._server)
        self._target = np.frombuffer(job.target.view, np.uint8)
        self._number = 0
        threading.Thread(target=self._run, daemon=True).start()

    def prepare(self, number: int) -> None:
        self._number = number

    def _run(self) -> None:
        sock, _ = self._server.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            frames: Iterator[tuple[object, list[tuple[int, int]]]] = self._job.pieces(self._number)
            for _, spans in frames:
                for (offset, size), part in zip(spans, self._decode(read_message(sock)), strict=True):
                    self._target[offset : offset + size] = np.frombuffer(part, np.uint8)
            sock.sendall(b"k")

    def close(self) -> None:
        self._server.close()


class FormatSender:
    def __init__(self, job: Job, address: str, encode: Callable[[memoryview, memoryview], bytes | bytearray]) -> None:
        self._job = job
        self._encode = encode
        self._socket = client(address)

    def round(self, number: int) -> None:
        source = self._job.source.view
        for _, spans in self._job.pieces(number):
            key, value = (source[offset : offset + size] for offset, size in spans)
            message = self._encode(key, value)
            self._socket.sendall(len(message).to_bytes(8, "little"))
            self._socket.sendall(message)
        read(self._socket, memoryview(bytearray(1)))

    def close(self) -> None:
        self._socket.close()
