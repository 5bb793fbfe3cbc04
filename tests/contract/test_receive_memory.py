"""A receive takes hardly any memory beside the one that the KV is for, however much KV it is."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import pytest
from tests.contract.kv_sink import soon
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id

from pdserve.transport.base import Transport
from pdserve.transport.file import FileTransport
from pdserve.transport.segment import Segment
from pdserve.transport.shm import ShmTransport
from pdserve.transport.tcp import TcpTransport
from pdwire import FirstToken, LayerFrame, Places

MIB = 1 << 20
FRAME_TOKENS = 16384
"""16 MiB a frame."""

TRANSPORTS: dict[str, Callable[[Path], Transport]] = {
    "tcp": lambda spool: TcpTransport(),
    "tcp-4-streams": lambda spool: TcpTransport(streams=4),
    "shm": lambda spool: ShmTransport(),
    "shm-inline": lambda spool: ShmTransport(),
    "file": FileTransport,
}


class Cache:
    """All the memory that the KV is for, touched before."""

    def __init__(self, tokens: int, share: bool) -> None:
        size = tokens * PREFILL.bytes_per_token
        self.segment = Segment.create(size) if share else None
        self._memory = memoryview(bytearray(size)) if self.segment is None else self.segment.view
        self._places = Places(
            request=request_id(1),
            layer_stride=size // PREFILL.layers,
            part_stride=size // PREFILL.layers // 2,
            runs=((0, tokens),),
        )

    def lend(self, request: bytes) -> Places:
        return self._places

    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        return [self._memory[at : at + size] for at, size in self._places.spans(frame)]

    def landed(self, frame: LayerFrame) -> None: ...

    def first_token(self, done: FirstToken) -> None: ...

    def aborted(self, request: bytes, reason: str) -> None: ...


def receive(pipe: Pipe, name: str, spool: Path, tokens: int) -> None:
    cache = Cache(tokens, share=name == "shm")
    listener = TRANSPORTS[name](spool).listen("127.0.0.1", 0, DECODE, cache)
    pipe.send(listener.address)
    pipe.recv()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # proc(5): resets the peak
    before = status("VmRSS")
    pipe.send("go")
    pipe.recv()
    while name == "file" and any(spool.glob("*.kv")):
        time.sleep(0.02)
    pipe.send(status("VmHWM") - before)
    listener.close()


def status(name: str) -> int:
    """Bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="this kernel cannot reset a peak")
@pytest.mark.parametrize("tokens", [FRAME_TOKENS, 4 * FRAME_TOKENS])
@pytest.mark.parametrize("name", TRANSPORTS)
def test_the_peak_of_a_receive_is_below_64_mib_whatever_the_size(name: str, tokens: int, tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=receive, args=(theirs, name, tmp_path, tokens), daemon=True)
    process.start()
    sender = TRANSPORTS[name](tmp_path).connect(ours.recv(), PREFILL, deadline=soon(30))
    ours.send("begin")
    assert ours.recv() == "go"
    body = memoryview(bytes(layer_frame(request_id(1), count=FRAME_TOKENS).body_bytes))
    for first in range(0, tokens, FRAME_TOKENS):
        for layer in range(PREFILL.layers):
            sender.push(layer_frame(request_id(1), layer, first, FRAME_TOKENS), [body], deadline=soon(60))
    sender.finish(FirstToken(request=request_id(1), token=1, prompt_tokens=tokens), deadline=soon(60))
    ours.send("end")
    extra = ours.recv()
    sender.close()
    process.join(20)
    assert extra < 64 * MIB, (
        f"{extra / MIB:.0f} MiB more than before, for {tokens * PREFILL.bytes_per_token / MIB:.0f} MiB of KV"
    )
    print(f"{name}: {extra / MIB:.1f} MiB beside {tokens * PREFILL.bytes_per_token / MIB:.0f}")
