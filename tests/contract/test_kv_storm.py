"""Hundreds of requests that both engines abort, refuse and finish at random: each still ends exactly once."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.contract.kv_sink import Sink, soon
from tests.contract.transports import TRANSPORTS, Case
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id

from pdserve.transport.base import KvListener, KvRefused, KvSender, TransferFailed
from pdserve.transport.segment import Segment
from pdwire import FirstToken, LayerFrame, Limits

REQUESTS = int(os.environ.get("PDCTL_STORM_REQUESTS", "300"))


class Engine(Sink):
    """Refuses at random, notes how each request ended, and that the transport never does what it must not."""

    def __init__(self, segment: Segment | None) -> None:
        super().__init__(segment=segment)
        self.ends: dict[bytes, list[str]] = defaultdict(list)
        self.placed: set[bytes] = set()
        self.faults: list[str] = []
        self._lock = threading.Lock()
        self._inside: set[bytes] = set()
        self._random = random.Random(7)

    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        self._enter(frame.request)
        try:
            if self.ends[frame.request]:
                raise KvRefused("it has ended")
            if self._random.random() < 0.01:
                raise KvRefused("no room")
            self.placed.add(frame.request)
            return super().place(frame)
        finally:
            self._leave(frame.request)

    def landed(self, frame: LayerFrame) -> None:
        self._enter(frame.request)
        super().landed(frame)
        self._leave(frame.request)

    def first_token(self, done: FirstToken) -> None:
        self._enter(done.request)
        try:
            if self._random.random() < 0.05:
                raise KvRefused("a layer is missing")
            self.end(done.request, "finished")
        finally:
            self._leave(done.request)

    def aborted(self, request: bytes, reason: str) -> None:
        self._enter(request)
        self.end(request, "aborted")
        self._leave(request)

    def end(self, request: bytes, how: str) -> None:
        with self._lock:
            self.ends[request].append(how)
        with self._changed:
            for key in [key for key in list(self.bodies) if key[0] == request]:
                del self.bodies[key]
            for key in [key for key in list(self.views) if key[0] == request and request not in self.lent]:
                del self.views[key]
        if how != "given up":
            self.take_back(request)

    def _enter(self, request: bytes) -> None:
        with self._lock:
            if request in self._inside:
                self.faults.append(f"two calls at a time for {request.hex()}")
            self._inside.add(request)

    def _leave(self, request: bytes) -> None:
        with self._lock:
            self._inside.discard(request)


def one_request(number: int, sender: KvSender, listener: KvListener, engine: Engine) -> str:
    request, chance = request_id(number), random.Random(number)
    fate = chance.choice(["nothing", "nothing", "decode aborts", "prefill aborts"])
    aborter = threading.Thread(target=abort_at_decode, args=(request, chance.random() / 100, listener, engine))
    if fate == "decode aborts":
        aborter.start()
    try:
        for first in (0, 16, 32):
            for layer in range(PREFILL.layers):
                frame = layer_frame(request, layer, first)
                sender.push(frame, [memoryview(bytes(frame.body_bytes))], deadline=soon(30))
                if fate == "prefill aborts" and chance.random() < 0.1:
                    sender.abort(request, "the client left")
        sender.finish(FirstToken(request=request, token=1, prompt_tokens=48), deadline=soon(30))
    except TransferFailed:
        return "failed"
    finally:
        if aborter.ident is not None:
            aborter.join(10)
    return "complete"


def abort_at_decode(request: bytes, after: float, listener: KvListener, engine: Engine) -> None:
    time.sleep(after)
    if not listener.abort(request, "the client left"):
        engine.end(request, "given up")


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("make", TRANSPORTS, ids=lambda case: case.name)
def test_every_request_of_a_storm_ends_exactly_once_on_both_sides(make: Case) -> None:
    transport, engine = (
        make(Limits(max_frame_bytes=70_000, credit_bytes=200_000)),
        Engine(Segment.create(8 << 20) if make.lends else None),
    )
    listener = transport.listen("127.0.0.1", 0, DECODE, engine)
    sender = transport.connect(listener.address, PREFILL, deadline=soon())
    with ThreadPoolExecutor(8) as threads:
        work = [threads.submit(one_request, number, sender, listener, engine) for number in range(1, REQUESTS + 1)]
        outcomes = Counter(each.result(120 + REQUESTS / 10) for each in work)
    sender.close()
    listener.close()
    assert not engine.faults
    assert outcomes["complete"] > REQUESTS / 10 and outcomes["failed"] > REQUESTS / 10
    # An engine may give up a request that it has finished: that is its own business.
    ends = {request: [end for end in engine.ends[request] if end != "given up"] for request in engine.placed}
    wrong = {
        request.hex(): engine.ends[request]
        for request, told in ends.items()
        if len(told) > 1 or (not told and "given up" not in engine.ends[request])
    }
    assert not wrong
    finished = sum("finished" in told for told in ends.values())
    assert finished >= outcomes["complete"]
