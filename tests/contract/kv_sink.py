"""A receiving engine of the least kind: keeps what arrives, byte for byte, and what it was told."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from tests.kv_examples import PREFILL

from pdserve.transport.base import KvRefused
from pdserve.transport.segment import Segment
from pdwire import CompatRecord, FirstToken, LayerFrame, Places


class Sink:
    """pieces: into how many views a body is scattered. segment: memory to lend. Each hook may be replaced by a test.

    tokens: of each lent request; set before the first.
    """

    def __init__(self, pieces: int = 3, segment: Segment | None = None) -> None:
        self.pieces = pieces
        self.segment = segment
        self.tokens = 128
        self.lent: dict[bytes, int] = {}
        self._free: list[int] | None = None
        self.bodies: dict[tuple[bytes, int, int], bytes] = {}
        self.landings: dict[tuple[bytes, int, int], int] = defaultdict(int)
        self.done: dict[bytes, FirstToken] = {}
        self.gone: dict[bytes, list[str]] = defaultdict(list)
        self.placing: Callable[[LayerFrame], None] = lambda frame: None
        self.landing: Callable[[LayerFrame], None] = lambda frame: None
        self.finishing: Callable[[FirstToken], None] = lambda done: None
        self.lending: Callable[[bytes], None] = lambda request: None
        self.views: dict[tuple[bytes, int, int], list[memoryview]] = {}
        self._changed = threading.Condition()

    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        self.placing(frame)
        step = max(1, frame.body_bytes // self.pieces)
        views = self.views[_key(frame)] = [
            whole[at : at + step] for whole in self._wholes(frame) for at in range(0, len(whole), step)
        ]
        return views

    def _wholes(self, frame: LayerFrame) -> list[memoryview]:
        if self.segment is None:
            return [memoryview(bytearray(frame.body_bytes))]
        spans = self._places(frame.request).spans(frame)
        return [self.segment.view[offset : offset + size] for offset, size in spans]

    def lend(self, request: bytes) -> Places:
        self.lending(request)
        with self._changed:
            if self._free is None:
                assert self.segment is not None
                size = self.tokens * PREFILL.bytes_per_token
                self._free = [at for at in range(0, self.segment.size, size) if at + size <= self.segment.size]
            self.lent[request] = self._free.pop()
        return self._places(request)

    def _places(self, request: bytes) -> Places:
        """Two runs, the second before the first, so that a place is not just a place further on."""
        at, part = self.lent[request], self.tokens * PREFILL.bytes_per_token // PREFILL.layers // 2
        half, token = self.tokens // 2, part // self.tokens
        runs = ((at + half * token, self.tokens - half), (at, half))
        return Places(request=request, layer_stride=2 * part, part_stride=part, runs=runs)

    def take_back(self, request: bytes) -> None:
        with self._changed:
            if request in self.lent:
                assert self._free is not None
                self._free.append(self.lent.pop(request))

    def landed(self, frame: LayerFrame) -> None:
        self.landing(frame)
        with self._changed:
            self.bodies[_key(frame)] = b"".join(self.views[_key(frame)])
            self.landings[_key(frame)] += 1
            self._changed.notify_all()

    def first_token(self, done: FirstToken) -> None:
        self.finishing(done)
        with self._changed:
            self.done[done.request] = done
            self.take_back(done.request)
            self._changed.notify_all()

    def aborted(self, request: bytes, reason: str) -> None:
        with self._changed:
            self.gone[request].append(reason)
            self.take_back(request)
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
