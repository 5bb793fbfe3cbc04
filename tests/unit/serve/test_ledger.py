"""The ledger lists what is really held: by whom, in which state, and until when."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.engine.pair import GREEDY, Pair
from tests.engine.tiny import make_model

from pdserve.config import ModelConfig
from pdserve.decode_request import Work
from pdserve.ledger import ENDS, HoldState, document
from pdserve.model import LoadedModel, load_model

PROMPT = [5, 6, 7, 8, 9, 10, 11, 12, 13]
BLOCK = 8


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    directory: Path = make_model(tmp_path_factory.mktemp("tiny"))
    return load_model(ModelConfig(path=directory, name="tiny", threads=1))


@pytest.fixture
def pair(model: LoadedModel) -> Iterator[Pair]:
    # 3 layers of K and V, 2 heads of 16: a block of 8 tokens has 6144 bytes, and the cache 4 of them.
    with Pair(model, chunk_tokens=24, block_tokens=BLOCK, memory_bytes=4 * 6144) as pair:
        yield pair


def reserve(pair: Pair, number: int, seconds: float = 30.0) -> bytes:
    request = number.to_bytes(16, "big")
    pair.decode.reserve(request, len(PROMPT), 4, time.monotonic() + seconds)
    return request


def test_a_reservation_and_what_waits_for_blocks_are_listed_with_their_leases(pair: Pair) -> None:
    first, second, third = (reserve(pair, number) for number in (1, 2, 3))
    held = {one.request: one for one in pair.decode.held}
    assert held[first.hex()].state is HoldState.RESERVED and held[first.hex()].kv_bytes == 2 * 6144
    assert held[second.hex()].state is HoldState.RESERVED
    assert held[third.hex()].state is HoldState.WAITING and held[third.hex()].kv_bytes == 0
    for one in held.values():
        assert one.left_s is not None and 25 < one.left_s <= 30 and 0 <= one.age_s < 5
    listed = document("decode", "d0", pair.decode.held)
    assert listed["requests"] == 3 and listed["kv_bytes"] == 4 * 6144
    assert {entry["ends"] for entry in listed["held"]} <= set(ENDS.values())


def test_a_lease_that_runs_out_frees_what_it_held(pair: Pair) -> None:
    reserve(pair, 1, seconds=0.2)
    assert pair.decode.held
    pair.wait_until_idle()
    assert not pair.decode.held


def test_kv_that_is_whole_waits_for_its_router_and_then_runs(pair: Pair) -> None:
    request = reserve(pair, 1)
    from pdserve.prefill import PrefillJob

    job = PrefillJob(request, PROMPT, GREEDY, pair.listener.address, time.monotonic() + 30)
    pair.prefill.submit(job)
    assert [(one.request, one.peer) for one in pair.prefill.held] == [(request.hex(), pair.listener.address)]
    job.result.result(30)
    assert not pair.prefill.held
    assert [one.state for one in pair.decode.held] == [HoldState.WHOLE]
    seen: list[HoldState] = []
    pair.decode.attach(request, Work(PROMPT, GREEDY, False, lambda event: None))
    end = time.monotonic() + 10
    while held := pair.decode.held:
        seen += [one.state for one in held if one.state not in seen]
        assert time.monotonic() < end
    assert HoldState.GENERATING in seen or not seen


def test_every_state_says_what_ends_it_and_so_does_the_documentation() -> None:
    assert set(ENDS) == set(HoldState)
    page = (Path(__file__).parents[3] / "docs" / "engine.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()]
    told = {row[1]: row[2] for row in rows if len(row) == 3 and row[0] in ("prefill", "decode") and row[1] in ENDS}
    assert told == {state.value: end for state, end in ENDS.items()}
