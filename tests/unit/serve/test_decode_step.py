"""A step serves every running sequence, and no recomputed prompt holds the others up."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from pdserve.decode_request import DecodeRequest
from pdserve.decode_step import ChunkPace, plan


def request(pending: int, computed: int = 10) -> DecodeRequest:
    made = DecodeRequest(b"r" * 16, computed, 5, 0.0)
    made.tokens, made.computed = [0] * (computed + pending), computed
    return made


def run(pace: ChunkPace, *, step_s: float, token_s: float, steps: int = 30) -> list[int]:
    """Chunk lengths on a machine where a step costs step_s and each chunk token token_s more."""
    pace.learn(0, step_s)
    chunks = []
    for _ in range(steps):
        chunks.append(pace.tokens(alone=False))
        pace.learn(chunks[-1], step_s + chunks[-1] * token_s)
    return chunks


def test_everyone_gets_a_token_and_only_the_first_recomputed_prompt_a_chunk() -> None:
    decoding, first, second = request(1), request(300), request(200)
    rows = plan([first, decoding, second], ChunkPace(128))
    assert [(row.request, row.count) for row in rows] == [(decoding, 1), (first, 16)]
    assert rows[0].samples and not rows[1].samples


def test_a_lone_prompt_takes_the_longest_chunk_and_its_last_one_samples() -> None:
    (row,) = plan([request(300)], ChunkPace(128))
    assert (row.first, row.count, row.samples) == (10, 128, False)
    (row,) = plan([request(100)], ChunkPace(128))
    assert (row.count, row.samples) == (100, True)


def test_a_fast_machine_takes_long_chunks() -> None:
    assert run(ChunkPace(128), step_s=0.02, token_s=0.001)[-1] == 128


def test_a_slow_machine_takes_chunks_that_add_a_quarter_of_a_second() -> None:
    chunk = run(ChunkPace(128), step_s=0.1, token_s=0.005)[-1]
    assert 0.2 <= chunk * 0.005 <= 0.26


def test_an_overloaded_machine_still_gets_on() -> None:
    assert min(run(ChunkPace(128), step_s=0.5, token_s=0.1)) == 16
