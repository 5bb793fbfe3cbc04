"""A storm over both engines: aborts from every side, faults on the link, restarts of its end. Afterwards nobody holds
anything, every request has ended exactly once, and the process is as large as before.

PDCTL_STORM_REQUESTS: how many; the soak asks for 10,000.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

pytest.importorskip("torch")

from tests.engine.pair import Pair, Request
from tests.engine.tiny import make_model

from pdserve.config import ModelConfig
from pdserve.decode_request import Failed, Finished
from pdserve.errors import EngineError
from pdserve.model import LoadedModel, load_model
from pdserve.transport.base import Transport
from pdserve.transport.fake import FakeTransport
from pdserve.transport.faults import Corrupt, Cut, Delay, Drop, Duplicate, Reorder, Rule, Script, Stall
from pdserve.transport.tcp import TcpTransport
from pdwire import Kind, Limits

pytestmark = pytest.mark.engine

REQUESTS = int(os.environ.get("PDCTL_STORM_REQUESTS", "160"))
BATCHES = 4 if REQUESTS < 2000 else 25
"""Between two of them decode's end of the transport restarts, with requests in flight."""
CLIENTS = 8
PATIENCE_S = 2.0
ENDS_WITHIN_S = 30.0
GROWTH_BYTES = 48 << 20
"""Of resident memory, from a tenth of the storm to its end: allocators and thread stacks, not one leaked block each."""
LIMITS = Limits(hello_s=1.0, frame_s=1.0, idle_s=2.0, request_s=1.0, complete_s=0.5, abort_s=1.0)
FAULTS = [
    Rule(Delay(0.01), chance=0.01),
    Rule(Duplicate(), kind=Kind.LAYER, chance=0.02),
    Rule(Reorder(), kind=Kind.LAYER, chance=0.01),
    Rule(Drop(), kind=Kind.LAYER, chance=0.002),
    Rule(Drop(), kind=Kind.COMPLETE, chance=0.002),
    Rule(Drop(), kind=Kind.ABORT, chance=0.01),
    Rule(Corrupt(), kind=Kind.LAYER, chance=0.005),
    Rule(Corrupt(), kind=Kind.FIRST_TOKEN, chance=0.002),
    Rule(Cut(), chance=0.001),
    Rule(Stall(), chance=0.0002),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    directory = make_model(tmp_path_factory.mktemp("tiny"))
    return load_model(ModelConfig(path=directory, name="tiny", threads=1))


def one_request(number: int, pair: Pair) -> str:
    """How it ended: exactly one event says so, in time."""
    chance = random.Random(number)
    prompt = [2 + chance.randrange(250) for _ in range(chance.choice((1, 15, 40, 90)))]
    try:
        request = pair.start(prompt, 4, patience_s=PATIENCE_S)
    except EngineError as error:
        return f"refused: {error.code}"
    fate = chance.choice(["wait", "wait", "router aborts", "prefill is cancelled", "transport aborts"])
    if fate != "wait":
        time.sleep(chance.random() / 50)
    if fate == "router aborts":
        pair.decode.abort(request.id, "the client left")
        pair.listener.abort(request.id, "the client left")
    elif fate == "prefill is cancelled" and request.job is not None:
        request.job.cancelled.set()
    elif fate == "transport aborts":
        pair.listener.abort(request.id, "a lease ran out")
        pair.decode.abort(request.id, "a lease ran out")
    return the_end(request)


def the_end(request: Request) -> str:
    while True:
        match request.events.get(timeout=ENDS_WITHIN_S):
            case Finished():
                end = "finished"
                break
            case Failed(error):
                end = f"failed: {error.code}"
                break
    assert request.events.empty(), "an event after the end"
    return end


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: TcpTransport(LIMITS), id="tcp"),
        pytest.param(lambda: FakeTransport(LIMITS, script=Script(FAULTS, seed=5)), id="fake"),
    ],
)
def test_after_a_storm_the_ledger_is_empty_and_nothing_has_grown(
    make: Callable[[], Transport], model: LoadedModel
) -> None:
    process = psutil.Process()
    settings = {"chunk_tokens": 24, "block_tokens": 8, "memory_bytes": 1 << 20, "max_waiting": 64}
    sizes: list[tuple[int, int]] = []
    with Pair(model, transport=make(), **settings) as pair:  # type: ignore[arg-type]
        outcomes: Counter[str] = Counter()
        batch = max(1, REQUESTS // BATCHES)
        for first in range(0, REQUESTS, batch):
            with ThreadPoolExecutor(CLIENTS) as clients:
                work = [
                    clients.submit(one_request, number, pair) for number in range(first, min(first + batch, REQUESTS))
                ]
                if first:
                    pair.restart_listener()
                outcomes.update(each.result(ENDS_WITHIN_S * 4) for each in work)
            until_nothing_is_held(pair)
            sizes.append((process.num_fds(), process.memory_info().rss))
    assert sum(outcomes.values()) == REQUESTS
    assert outcomes["finished"] > REQUESTS / 4 and outcomes["failed: aborted"] > REQUESTS / 20
    assert sizes[-1][0] <= sizes[0][0] + 4, f"file descriptors: {sizes}"
    assert sizes[-1][1] <= sizes[0][1] + GROWTH_BYTES, f"resident memory: {sizes}"
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith(("kv-", "push ", "fake-"))]
    assert not left


def until_nothing_is_held(pair: Pair) -> None:
    """Every lease has run out within the longest of them; then not a block, a buffer or a request is left."""
    end = time.monotonic() + ENDS_WITHIN_S
    while pair.decode.held or pair.prefill.held:
        assert time.monotonic() < end, f"still held: {pair.decode.held} {pair.prefill.held}"
        time.sleep(0.02)
    pair.wait_until_idle()
