"""A KV transfer between two processes that hold no model: the transport, the wire and its checksums, and nothing else.

One end listens and takes what comes, the other sends so many bytes of KV and is told that every frame was verified. Both
are bounded in time. It shows that KV gets from there to here; how fast a real engine is, it does not.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pdserve.transport.base import KvRefused
from pdserve.transport.security import TransportSecurity
from pdserve.transport.tcp import TcpTransport
from pdwire import CompatRecord, DType, FirstToken, LayerFrame, Secret, Security

_LAYERS, _TOKENS = 8, 64
_RECORD = CompatRecord(
    name="echo",
    model_digest="sha256:none",
    tokenizer_digest="sha256:none",
    rope={},
    layers=_LAYERS,
    kv_heads=8,
    head_dim=128,
    dtype=DType.BFLOAT16,
    engine="echo",
    engine_version="1",
    attention_backend="none",
    capacity_tokens=1 << 20,
    transports=(TcpTransport.name,),
)
STEP_BYTES = _RECORD.bytes_per_token * _TOKENS
"""One layer frame of each layer: a transfer is a multiple of it."""
MAX_BYTES = 1 << 30
_BYTES_PER_FRAME = STEP_BYTES // _LAYERS


class EchoFailed(Exception):
    """The text says why, in one line."""


@dataclass(frozen=True, slots=True)
class Echoed:
    """seconds: of the sender, from the first frame to the peer's word that all are verified; 0 where it is not known."""

    size: int
    frames: int
    seconds: float = 0.0


def listen(
    host: str, secret: Secret | None, *, deadline_s: float, listening: Callable[[str], None] = lambda address: None
) -> Echoed:
    """Takes one transfer. listening: is told the address, with a port that was free.

    Raises EchoFailed where none came in time or one broke off, OSError and ValueError as `Transport.listen` does.
    """
    sink = _Sink()
    listener = TcpTransport(security=_security(secret)).listen(host, 0, _RECORD, sink)
    try:
        listening(listener.address)
        if not sink.over.wait(deadline_s):
            raise EchoFailed(f"no whole transfer came within {deadline_s:g} s")
    finally:
        listener.close()
    if sink.broke:
        raise EchoFailed(sink.broke)
    return Echoed(sink.frames * _BYTES_PER_FRAME, sink.frames)


def send(address: str, secret: Secret | None, size: int, *, deadline_s: float) -> Echoed:
    """Sends at least `size` bytes. Raises TransferFailed, IncompatiblePeer."""
    steps = max(1, -(-min(size, MAX_BYTES) // STEP_BYTES))
    body = memoryview(os.urandom(_BYTES_PER_FRAME))
    deadline = time.monotonic() + deadline_s
    request, farewell = os.urandom(16), os.urandom(16)
    sender = TcpTransport(security=_security(secret)).connect(address, _RECORD, deadline=deadline)
    try:
        began = time.monotonic()
        for layer in range(_LAYERS):
            for step in range(steps):
                sender.push(_frame(request, layer, step), [body], deadline=deadline)
        sender.finish(FirstToken(request=request, token=0, prompt_tokens=steps * _TOKENS), deadline=deadline)
        took = time.monotonic() - began
        # The listener goes only when this has ended: else it could leave before it has said COMPLETE.
        sender.push(_frame(farewell, 0, 0), [body], deadline=deadline)
    finally:
        sender.close()
    return Echoed(steps * STEP_BYTES, steps * _LAYERS, took)


class _Sink:
    """Counts what landed. over: a transfer was taken, or the sender went."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.frames = 0
        self.broke = ""
        self._lock = threading.Lock()
        self._landed: dict[bytes, set[tuple[int, int]]] = {}

    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        if frame.body_bytes != _BYTES_PER_FRAME or frame.first_token * _RECORD.bytes_per_token >= MAX_BYTES:
            raise KvRefused("not a frame of an echo")
        return [memoryview(bytearray(frame.body_bytes))]

    def landed(self, frame: LayerFrame) -> None:
        with self._lock:
            self._landed.setdefault(frame.request, set()).add((frame.layer, frame.first_token))

    def first_token(self, done: FirstToken) -> None:
        with self._lock:
            there = len(self._landed.get(done.request, ()))
            if there * _BYTES_PER_FRAME != done.prompt_tokens * _RECORD.bytes_per_token:
                raise KvRefused(f"{there} frames do not make {done.prompt_tokens} tokens")
            self.frames = there

    def aborted(self, request: bytes, reason: str) -> None:
        """Of the sender's farewell after a whole transfer, or of a transfer that broke off."""
        if not self.frames:
            self.broke = reason
        self.over.set()


def _frame(request: bytes, layer: int, step: int) -> LayerFrame:
    return LayerFrame(
        request=request,
        layer=layer,
        first_token=step * _TOKENS,
        count=_TOKENS,
        dtype=_RECORD.dtype,
        kv_heads=_RECORD.rank_kv_heads,
        head_dim=_RECORD.head_dim,
    )


def _security(secret: Secret | None) -> TransportSecurity | None:
    return None if secret is None else TransportSecurity(Security.AUTHENTICATED, lambda: [secret])
