"""Mooncake's transfer engine over TCP: decode reads the KV out of prefill's memory."""

from __future__ import annotations

import socket
import threading

import numpy as np
from tests.bench.kv.contender import Contender
from tests.bench.kv.sockets import address_of, client, read_message, server
from tests.bench.kv.workload import Job

HOST = "127.0.0.1"


def engine(memory: memoryview) -> tuple[object, str, int]:
    """Started and with the memory registered; its own address, and the memory's."""
    from mooncake.engine import TransferEngine

    found = TransferEngine()
    if found.initialize(HOST, "P2PHANDSHAKE", "tcp", ""):
        raise RuntimeError("the transfer engine does not start")
    start = int(np.frombuffer(memory, np.uint8).ctypes.data)
    if found.register_memory(start, memory.nbytes):
        raise RuntimeError("memory cannot be registered")
    return found, f"{HOST}:{found.get_rpc_port()}", start


class MooncakeReceiver:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._server = server()
        self.address = address_of(self._server)
        self._engine, _, self._start = engine(job.target.view)
        threading.Thread(target=self._run, daemon=True).start()

    def prepare(self, number: int) -> None:
        return

    def _run(self) -> None:
        sock, _ = self._server.accept()
        peer, start = read_message(sock).decode().split(" ")
        while sock.recv(1):
            sock.sendall(b"e" if self._read(peer, int(start)) else b"k")

    def _read(self, peer: str, start: int) -> int:
        """All of it in one call, which is its fastest way."""
        size = self._job.bytes
        return int(self._engine.transfer_sync_read(peer, self._start, start, size))  # type: ignore[attr-defined]

    def close(self) -> None:
        self._server.close()


class MooncakeSender:
    def __init__(self, job: Job, where: str) -> None:
        self._engine, own, start = engine(job.source.view)
        self._socket: socket.socket = client(where)
        hello = f"{own} {start}".encode()
        self._socket.sendall(len(hello).to_bytes(8, "little") + hello)

    def round(self, number: int) -> None:
        self._socket.sendall(b"g")
        if self._socket.recv(1) != b"k":
            raise RuntimeError("the transfer failed")

    def close(self) -> None:
        self._socket.close()


CONTENDERS = [
    Contender(
        "Mooncake tcp",
        MooncakeReceiver,
        MooncakeSender,
        environment={"MC_TCP_BIND_ADDRESS": HOST, "MC_LOG_LEVEL": "ERROR", "GLOG_minloglevel": "2"},
        note="one read of the whole",
    )
]
