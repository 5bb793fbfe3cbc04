"""A receiving engine of the least kind: keeps what arrives, byte for byte, and what it was told."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from tests.kv_examples import PREFILL

from pdserve.transport.base import KvRefused
from pdwire import CompatRecord, FirstToken, LayerFrame


class Sink:
    """pieces: into how many views a body is scattered. Each hook may be replaced by a test."""

    def __init__(self, pieces: int = 3) -> None:
        self.pieces = pieces
        self.bodies: dict[tuple[bytes, int, int], bytes] = {}
        self.landings: dict[tuple[bytes, int, int], int] = defaultdict(int)
        self.done: dict[bytes, FirstToken] = {}
        self.gone: dict[bytes, list[str]] = defaultdict(list)
        self.placing: Callable[[LayerFrame], None] = lambda frame: None
        self.landing: Callable[[LayerFrame], None] = lambda frame: None
        self.finishing: Callable[[FirstToken], None] = lambda done: None
        self._memory: dict[tuple[bytes, int, int], bytearray] = {}
        self._changed = threading.Condition()

    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        self.placing(frame)
        memory = self._memory[_key(frame)] = bytearray(frame.body_bytes)
        step = max(1, frame.body_bytes // self.pieces)
        view = memoryview(memory)
        return [view[at : at + step] for at in range(0, len(memory), step)]

    def landed(self, frame: LayerFrame) -> None:
        self.landing(frame)
        with self._changed:
            self.bodies[_key(frame)] = bytes(self._memory[_key(frame)])
            self.landings[_key(frame)] += 1
            self._changed.notify_all()

    def first_token(self, done: FirstToken) -> None:
        self.finishing(done)
        with self._changed:
            self.done[done.request] = done
            self._changed.notify_all()

    def aborted(self, request: bytes, reason: str) -> None:
        with self._changed:
            self.gone[request].append(reason)
            self._changed.notify_all()

    def wait(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: bool(condition()), seconds), "the sink was not told in time"


def require_all_tokens(sink: Sink, record: CompatRecord = PREFILL) -> Callable[[FirstToken], None]:
    """What a real engine does with a first token: refuses it while KV of some layer or token is missing."""

    def check(done: FirstToken) -> None:
        for layer in range(record.layers):
            have = {
                token
                for (request, of_layer, first), body in list(sink.bodies.items())
                if request == done.request and of_layer == layer
                for token in range(first, first + len(body) // (record.bytes_per_token // record.layers))
            }
            missing = set(range(done.prompt_tokens)) - have
            if missing:
                raise KvRefused(f"layer {layer} lacks tokens {min(missing)}..{max(missing)}")

    return check


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


def _key(frame: LayerFrame) -> tuple[bytes, int, int]:
    return frame.request, frame.layer, frame.first_token
