"""Both engines, joined by the real transport, over tiny random models: every shape gives the one-process run's
tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.engine.pair import Pair
from tests.engine.tiny import CONTEXT, FAMILIES, make_model

from pdserve.config import ModelConfig
from pdserve.errors import DeadlinePassed, EngineBusy, TooLong
from pdserve.model import LoadedModel, load_model
from pdserve.reference import Reference, first_difference, is_near_tie
from pdserve.sampling import Sampling

CHUNK, BLOCK = 24, 8


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(directory: Path) -> LoadedModel:
    return load_model(ModelConfig(path=directory, name="tiny", threads=1))


@pytest.fixture
def pair(model: LoadedModel) -> Iterator[Pair]:
    with Pair(model, chunk_tokens=CHUNK, block_tokens=BLOCK, memory_bytes=4 << 20) as pair:
        yield pair


def prompt(length: int, start: int = 0) -> list[int]:
    return [2 + (number * 37 + number * number + start) % 250 for number in range(length)]


def assert_same(reference: Reference, prompt: list[int], got: list[int], tokens: int) -> None:
    run = reference.run(prompt, tokens)
    at = first_difference(run, got)
    assert at is None or is_near_tie(run, at), (at, run, got)


def test_prefill_that_writes_into_decodes_cache_gives_the_same_tokens(directory: Path, model: LoadedModel) -> None:
    reference = Reference(directory, threads=1)
    with Pair(model, chunk_tokens=CHUNK, block_tokens=BLOCK, memory_bytes=4 << 20, transport="shm") as pair:
        for length in (1, BLOCK + 1, CHUNK, 3 * CHUNK + 5):
            assert_same(reference, prompt(length), pair.generate(prompt(length), 12), 12)
        pair.wait_until_idle()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gives_the_tokens_of_one_process(family: str, tmp_path: Path) -> None:
    make_model(tmp_path, family)
    reference = Reference(tmp_path, threads=1)
    model = load_model(ModelConfig(path=tmp_path, name="tiny", threads=1))
    with Pair(model, chunk_tokens=CHUNK, block_tokens=BLOCK, memory_bytes=4 << 20) as pair:
        for length in (1, BLOCK - 1, BLOCK, BLOCK + 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5, CONTEXT - 12):
            assert_same(reference, prompt(length), pair.generate(prompt(length), 12), 12)
        pair.wait_until_idle()


def test_decode_that_computes_the_prompt_itself_gives_the_same_tokens(directory: Path, pair: Pair) -> None:
    reference = Reference(directory, threads=1)
    for length in (1, BLOCK, 150):
        assert_same(reference, prompt(length), pair.generate(prompt(length), 12, recompute=True), 12)


def test_requests_that_run_together_get_the_tokens_they_get_alone(directory: Path, pair: Pair) -> None:
    reference = Reference(directory, threads=1)
    lengths = (5, 40, 9, 100, 1, 70, 33, 8)
    running = [pair.start(prompt(n, n), 20, recompute=n in (40, 33)) for n in lengths]
    for length, request in zip(lengths, running, strict=True):
        assert_same(reference, prompt(length, length), request.tokens(), 20)
    pair.wait_until_idle()


def test_fragmented_blocks_change_nothing(directory: Path, model: LoadedModel) -> None:
    reference = Reference(directory, threads=1)
    with Pair(model, chunk_tokens=CHUNK, block_tokens=4, memory_bytes=1 << 20) as pair:
        tables = []
        while (table := pair.cache.allocate(4)) is not None:
            tables.append(table)
        for table in tables[::2]:
            pair.cache.release(table)
        request = pair.start(prompt(90), 10)
        assert_same(reference, prompt(90), request.tokens(), 10)


def test_a_seed_gives_the_same_tokens_alone_together_and_resumed(pair: Pair) -> None:
    samplings = [Sampling(temperature=1.0, top_p=0.9, seed=seed, ignore_eos=True) for seed in range(6)]
    alone = [pair.generate(prompt(30), 16, sampling) for sampling in samplings]
    together = [pair.start(prompt(30), 16, sampling) for sampling in samplings]
    assert [request.tokens() for request in together] == alone
    assert len({tuple(tokens) for tokens in alone}) == len(alone), "different seeds gave the same answer"
    resumed = pair.generate(prompt(30) + alone[0][:7], 9, samplings[0])
    assert alone[0][:7] + resumed == alone[0]


def test_blocks_return_when_a_request_is_aborted_at_any_stage(pair: Pair) -> None:
    running = pair.start(prompt(20), 200)
    waiting = pair.start(prompt(20), 30)
    running.events.get(timeout=10)
    assert pair.decode.abort(running.id, "the client left")
    assert pair.decode.abort(waiting.id, "the client left")
    assert not pair.decode.abort(running.id, "again")
    pair.wait_until_idle()


def test_what_cannot_ever_fit_is_refused_and_what_may_fit_later_waits(model: LoadedModel) -> None:
    with Pair(model, block_tokens=BLOCK, memory_bytes=100 << 10, max_waiting=1) as pair:
        capacity = pair.cache.capacity_tokens
        soon = time.monotonic() + 0.3
        with pytest.raises(TooLong, match="KV cache"):
            pair.decode.reserve(b"a" * 16, capacity, 1, soon)
        held = pair.decode.reserve(b"b" * 16, capacity - 10, 10, time.monotonic() + 30)
        held.result(timeout=1)
        waiting = pair.decode.reserve(b"c" * 16, 10, 10, soon)
        with pytest.raises(EngineBusy, match="waiting"):
            pair.decode.reserve(b"d" * 16, 10, 10, soon)
        with pytest.raises(DeadlinePassed):
            waiting.result(timeout=5)
        later = pair.decode.reserve(b"e" * 16, 10, 10, time.monotonic() + 30)
        pair.decode.abort(b"b" * 16, "make room")
        later.result(timeout=5)


def test_a_reservation_that_nobody_uses_ends_at_its_deadline(pair: Pair) -> None:
    pair.decode.reserve(b"a" * 16, 20, 20, time.monotonic() + 0.2).result(timeout=5)
    assert pair.cache.free_blocks < pair.cache.blocks
    pair.wait_until_idle()
