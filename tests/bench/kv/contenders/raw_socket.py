"""TCP sockets and nothing else: the bytes arrive in their places, and nobody looks whether they are right."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

from tests.bench.kv.contender import Contender
from tests.bench.kv.sockets import address_of, client, read, server
from tests.bench.kv.workload import Job

PIECE_BYTES = 1 << 20


def pieces(job: Job, number: int, stream: int, streams: int) -> Iterator[tuple[int, int]]:
    """The stream's share of each frame, as (offset, bytes)."""
    at = 0
    for _, spans in job.pieces(number):
        for offset, size in spans:
            for start in range(offset, offset + size, PIECE_BYTES):
                if at % streams == stream:
                    yield start, min(PIECE_BYTES, offset + size - start)
                at += 1


class RawReceiver:
    def __init__(self, job: Job, streams: int) -> None:
        self._job, self._streams, self._number = job, streams, 0
        self._server = server()
        self.address = address_of(self._server)
        threading.Thread(target=self._accept, daemon=True).start()

    def prepare(self, number: int) -> None:
        self._number = number

    def _accept(self) -> None:
        for stream in range(self._streams):
            sock, _ = self._server.accept()
            threading.Thread(target=self._read, args=(sock, stream), daemon=True).start()

    def _read(self, sock: socket.socket, stream: int) -> None:
        target = self._job.target.view
        while True:
            for offset, size in pieces(self._job, self._number, stream, self._streams):
                read(sock, target[offset : offset + size])
            sock.sendall(b"k")

    def close(self) -> None:
        self._server.close()


class RawSender:
    def __init__(self, job: Job, address: str, streams: int) -> None:
        self._job, self._streams = job, streams
        self._sockets = [client(address) for _ in range(streams)]

    def round(self, number: int) -> None:
        threads = [
            threading.Thread(target=self._write, args=(sock, number, stream))
            for stream, sock in enumerate(self._sockets)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _write(self, sock: socket.socket, number: int, stream: int) -> None:
        source = self._job.source.view
        for offset, size in pieces(self._job, number, stream, self._streams):
            sock.sendall(source[offset : offset + size])
        read(sock, memoryview(bytearray(1)))

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


def raw(streams: int) -> Contender:
    return Contender(
        f"raw socket, {streams} stream{'s' if streams > 1 else ''}",
        lambda job: RawReceiver(job, streams),
        lambda job, address: RawSender(job, address, streams),
        streams=streams,
    )


CONTENDERS = [raw(1), raw(4)]
