"""NIXL over UCX: decode reads the KV out of prefill's memory, as vLLM's NixlConnector does."""

from __future__ import annotations

import base64
import json
import threading
import time
from typing import Any

from tests.bench.kv.contender import Contender
from tests.bench.kv.sockets import address_of, client, read_message, server
from tests.bench.kv.workload import Job

from pdserve.transport.segment import COPY_ENVIRONMENT

PIECE_BYTES = 1 << 20
"""Of one descriptor: what gave it its best figures with both settings."""


def agent(name: str) -> Any:
    from nixl._api import nixl_agent, nixl_agent_config

    return nixl_agent(name, nixl_agent_config(enable_prog_thread=True, backends=["UCX"]))


def address(view: memoryview) -> int:
    import numpy as np

    return int(np.frombuffer(view, np.uint8).ctypes.data)


def pieces(job: Job, start: int) -> list[tuple[int, int, int]]:
    found = []
    for _, spans in job.pieces(0):
        for offset, size in spans:
            for at in range(offset, offset + size, PIECE_BYTES):
                found.append((start + at, min(PIECE_BYTES, offset + size - at), 0))
    return found


class NixlReceiver:
    """Has the KV in the end. Prefill tells it when to begin, by a plain socket."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._server = server()
        self.address = address_of(self._server)
        self._agent = agent("decode")
        start = address(job.target.view)
        self._agent.register_memory([(start, job.target.size, 0, "")], mem_type="DRAM")
        self._local = self._agent.get_xfer_descs(pieces(job, start), mem_type="DRAM")
        threading.Thread(target=self._run, daemon=True).start()

    def prepare(self, number: int) -> None:
        return

    def _run(self) -> None:
        sock, _ = self._server.accept()
        hello = json.loads(read_message(sock))
        peer = self._agent.add_remote_agent(base64.b64decode(hello["metadata"]))
        remote = self._agent.get_xfer_descs(pieces(self._job, hello["start"]), mem_type="DRAM")
        handle = self._agent.initialize_xfer("READ", self._local, remote, peer)
        sock.sendall(b"k")
        while sock.recv(1):
            state = self._agent.transfer(handle)
            while state not in ("DONE", "ERR"):
                time.sleep(0)
                state = self._agent.check_xfer_state(handle)
            sock.sendall(b"k" if state == "DONE" else b"e")

    def close(self) -> None:
        self._server.close()


class NixlSender:
    def __init__(self, job: Job, where: str) -> None:
        self._agent = agent("prefill")
        start = address(job.source.view)
        self._agent.register_memory([(start, job.source.size, 0, "")], mem_type="DRAM")
        self._socket = client(where)
        metadata = base64.b64encode(self._agent.get_agent_metadata()).decode()
        hello = json.dumps({"metadata": metadata, "start": start}).encode()
        self._socket.sendall(len(hello).to_bytes(8, "little") + hello)
        self._wait()

    def round(self, number: int) -> None:
        self._socket.sendall(b"g")
        self._wait()

    def _wait(self) -> None:
        if self._socket.recv(1) != b"k":
            raise RuntimeError("the transfer failed")

    def close(self) -> None:
        self._socket.close()


def nixl(name: str, environment: dict[str, str], note: str) -> Contender:
    common = {"UCX_LOG_LEVEL": "error", "NIXL_LOG_LEVEL": "ERROR"}
    return Contender(name, NixlReceiver, NixlSender, environment={**common, **environment}, note=note)


CONTENDERS = [
    nixl(
        "NIXL shared memory",
        {"UCX_TLS": "tcp,self,sm", "UCX_NET_DEVICES": "lo", **COPY_ENVIRONMENT},
        "UCX_TLS=tcp,self,sm: it does not start without a network",
    ),
    nixl(
        "NIXL tcp",
        {
            "UCX_TLS": "tcp",
            "UCX_NET_DEVICES": "lo",
            "UCX_TCP_TX_SEG_SIZE": "256k",
            "UCX_TCP_RX_SEG_SIZE": "256k",
        },
        "UCX_TLS=tcp, segments of 256k: with the default ones it is about a third of that",
    ),
]
