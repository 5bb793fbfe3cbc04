"""Decode's end of a transfer: right bytes in the right slots, refusals by name, no block given to two."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from pdserve.architecture import Architecture
from pdserve.block_pool import Run
from pdserve.convert import cast
from pdserve.kv_cache import BlockTable, KvCache
from pdserve.kv_receiver import KvReceiver, Reservation
from pdserve.landing import DirectLanding, Landing, StagedLanding
from pdserve.staging import StagingRoom
from pdserve.tensors import byte_array, byte_view, torch_dtype
from pdserve.transport.base import KvRefused
from pdserve.transport.segment import Segment
from pdwire import Conversion, DType, FirstToken, LayerFrame, frames

LAYERS, HEADS, DIM, BLOCK, BLOCKS = 3, 2, 8, 4, 12
SHAPE = Architecture("llama", LAYERS, 4, HEADS, DIM, 100, 64, {}, frozenset())
ONE, TWO = b"1" * 16, b"2" * 16
Settled = list[Reservation]


def make(
    dtype: DType = DType.FLOAT32,
    landing: Callable[[KvCache], Landing] = DirectLanding,
    *,
    shared: bool = False,
    can: Set[Conversion] = frozenset(),
) -> tuple[KvReceiver, KvCache]:
    block_bytes = BLOCK * SHAPE.kv_bytes_per_token(dtype.itemsize)
    cache = KvCache(SHAPE, dtype, "cpu", block_tokens=BLOCK, memory_bytes=BLOCKS * block_bytes, shared=shared)
    return KvReceiver(cache, landing(cache), can=can), cache


def frame(layer: int, first: int, count: int, request: bytes = ONE, **changed: Any) -> LayerFrame:
    sound = LayerFrame(
        request=request,
        layer=layer,
        first_token=first,
        count=count,
        dtype=DType.FLOAT32,
        kv_heads=HEADS,
        head_dim=DIM,
    )
    return replace(sound, **changed)


def fill(views: Sequence[memoryview], body: memoryview) -> None:
    at = 0
    for view in views:
        view[:] = body[at : at + len(view)]
        at += len(view)
    assert at == len(body)


def send(receiver: KvReceiver, sent: LayerFrame, kv: torch.Tensor) -> None:
    """kv: [2, count, kv_heads, head_dim]."""
    fill(receiver.place(sent), byte_view(kv.contiguous()))
    receiver.landed(sent)


@pytest.mark.parametrize("landing", [DirectLanding, StagedLanding])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_frames_land_in_their_slots_across_scattered_blocks(landing: type[DirectLanding], dtype: DType) -> None:
    receiver, cache = make(dtype, landing)
    tables = [cache.allocate(BLOCK) for _ in range(BLOCKS)]
    for table in tables[1::2]:
        assert table is not None
        cache.release(table)
    reservation = receiver.reserve(ONE, 18, 20, lambda _: None)
    assert reservation is not None and len(reservation.table.runs) > 1
    sent = torch.randn(LAYERS, 2, 18, HEADS, DIM).to(cache.tensor.dtype)
    for layer in range(LAYERS):
        for first, end in ((0, 7), (7, 8), (8, 18)):
            part = frame(layer, first, end - first, dtype=dtype)
            send(receiver, part, sent[layer, :, first:end])
    spans = reservation.table.spans(0, 18)
    for layer in range(LAYERS):
        for which in (0, 1):
            assert torch.equal(cache.read(layer, which, spans), sent[layer, which])


@pytest.mark.parametrize("landing", [DirectLanding, StagedLanding])
@pytest.mark.parametrize(
    ("have", "want", "can"),
    [
        (DType.BFLOAT16, DType.FLOAT32, Conversion.DTYPE),
        (DType.FLOAT16, DType.FLOAT32, Conversion.DTYPE),
        (DType.FLOAT32, DType.BFLOAT16, Conversion.ROUNDING),
        (DType.FLOAT32, DType.FLOAT16, Conversion.ROUNDING),
        (DType.FLOAT16, DType.BFLOAT16, Conversion.ROUNDING),
        (DType.BFLOAT16, DType.FLOAT16, Conversion.ROUNDING),
    ],
)
def test_kv_of_another_dtype_lands_as_the_conversion_library_says(
    landing: type[DirectLanding], have: DType, want: DType, can: Conversion
) -> None:
    receiver, cache = make(want, landing, can={can})
    reservation = receiver.reserve(ONE, 18, 20, lambda _: None)
    assert reservation is not None
    sent = (torch.randn(2, 18, HEADS, DIM) * 100).to(torch_dtype(have))
    send(receiver, frame(1, 0, 18, dtype=have), sent)
    expected = cast(byte_array(sent), have, want).view("u1")
    for which in (0, 1):
        landed = byte_array(cache.read(1, which, reservation.table.spans(0, 18)).contiguous())
        assert (landed.reshape(-1) == expected[which].reshape(-1)).all()


def test_the_end_is_refused_while_something_is_missing_and_names_it() -> None:
    receiver, _ = make()
    settled: Settled = []
    receiver.reserve(ONE, 8, 8, settled.append)
    for layer in range(LAYERS):
        send(receiver, frame(layer, 0, 8 if layer != 1 else 5), torch.zeros(2, 8 if layer != 1 else 5, HEADS, DIM))
    with pytest.raises(KvRefused, match=r"layer 1 tokens 5\.\.7 never arrived"):
        receiver.first_token(FirstToken(request=ONE, token=5, prompt_tokens=8))
    assert settled == []
    send(receiver, frame(1, 5, 3), torch.zeros(2, 3, HEADS, DIM))
    receiver.first_token(FirstToken(request=ONE, token=5, prompt_tokens=8))
    assert [one.first_token.token for one in settled if one.first_token] == [5]


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        (frame(0, 0, 4, request=TWO), "not reserved"),
        (frame(LAYERS, 0, 4), "layer 3 of a model with 3"),
        (frame(0, 6, 4), "beyond the 8 prompt tokens"),
        (frame(0, 0, 4, kv_heads=4), "kv_heads is 4 in the frame, 2 in decode's cache"),
        (frame(0, 0, 4, head_dim=16), "head_dim is 16 in the frame, 8 in decode's cache"),
        (frame(0, 0, 4, dtype=DType.BFLOAT16), "dtype is bfloat16 in the frame, float32 in decode's cache"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused_by_name(sent: LayerFrame, named: str) -> None:
    receiver, _ = make()
    receiver.reserve(ONE, 8, 8, lambda _: None)
    with pytest.raises(KvRefused, match=named):
        receiver.place(sent)


def test_another_prompt_length_than_reserved_is_refused() -> None:
    receiver, _ = make()
    receiver.reserve(ONE, 8, 8, lambda _: None)
    with pytest.raises(KvRefused, match="9 prompt tokens were sent, 8 reserved"):
        receiver.first_token(FirstToken(request=ONE, token=5, prompt_tokens=9))


def test_blocks_that_are_being_written_are_given_to_nobody_until_the_transport_lets_go() -> None:
    receiver, cache = make()
    receiver.reserve(ONE, 8, 8, lambda _: None)
    free = cache.free_blocks
    receiver.place(frame(0, 0, 8))
    told: list[int] = []
    receiver.on_freed = lambda: told.append(cache.free_blocks)
    assert receiver.release(ONE)
    assert cache.free_blocks == free and told == []
    with pytest.raises(KvRefused, match="not reserved"):
        receiver.place(frame(1, 0, 8))
    receiver.landed(frame(0, 0, 8))
    assert told == [BLOCKS]
    receiver.check_integrity()


@pytest.mark.parametrize("landing", [DirectLanding, StagedLanding])
def test_a_broken_transfer_is_told_once_and_its_late_frames_are_refused(landing: type[DirectLanding]) -> None:
    receiver, cache = make(landing=landing)
    settled: Settled = []
    receiver.reserve(ONE, 8, 8, settled.append)
    receiver.place(frame(0, 0, 8))
    receiver.aborted(ONE, "the connection broke")
    receiver.aborted(ONE, "again")
    assert [one.failure for one in settled] == ["the connection broke"]
    with pytest.raises(KvRefused, match="the connection broke"):
        receiver.place(frame(0, 0, 8))
    assert receiver.release(ONE) and not receiver.release(ONE)
    assert cache.free_blocks == BLOCKS
    receiver.aborted(TWO, "never heard of")


def test_nothing_is_reserved_when_too_little_is_free() -> None:
    receiver, cache = make()
    assert receiver.reserve(ONE, 8, BLOCK * (BLOCKS - 1), lambda _: None)
    assert receiver.reserve(TWO, 8, 2 * BLOCK, lambda _: None) is None
    with pytest.raises(KvRefused, match="already"):
        receiver.reserve(ONE, 8, 8, lambda _: None)
    receiver.check_integrity()
    assert cache.free_blocks == 1


def test_a_table_maps_tokens_to_slots_and_refuses_what_lies_outside() -> None:
    table = BlockTable((Run(5, 1), Run(0, 2)), block_tokens=4)
    assert table.capacity == 12
    assert table.spans(0, 12) == [(20, 4), (0, 8)]
    assert table.spans(3, 3) == [(23, 1), (0, 2)]
    assert table.spans(6, 2) == [(2, 2)]
    assert table.spans(4, 0) == []
    for first, count in ((0, 13), (12, 1), (-1, 2)):
        with pytest.raises(IndexError):
            table.spans(first, count)


def test_a_table_cannot_be_given_back_twice() -> None:
    _, cache = make()
    table = cache.allocate(5)
    assert table is not None
    cache.release(table)
    with pytest.raises(ValueError, match="not allocated"):
        cache.release(table)


def test_memory_for_not_even_one_block_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match="less than one block"):
        KvCache(SHAPE, DType.FLOAT32, "cpu", block_tokens=BLOCK, memory_bytes=100)


def test_what_is_written_where_a_request_was_lent_is_what_the_cache_reads() -> None:
    receiver, cache = make(shared=True)
    tables = [cache.allocate(BLOCK) for _ in range(BLOCKS)]
    for table in tables[1::2]:
        assert table is not None
        cache.release(table)
    reservation = receiver.reserve(ONE, 18, 20, lambda _: None)
    assert reservation is not None and receiver.segment is not None
    places = receiver.lend(ONE)
    assert len(places.runs) > 1
    sent = torch.randn(LAYERS, 2, 18, HEADS, DIM)
    other = Segment.attach(os.dup(receiver.segment.fd))
    for layer in range(LAYERS):
        for first, end in ((0, 7), (7, 8), (8, 18)):
            part = frame(layer, first, end - first)
            body = byte_view(sent[layer, :, first:end].contiguous())
            views = [other.view[offset : offset + size] for offset, size in places.spans(part)]
            fill(views, body)
            assert b"".join(receiver.place(part)) == bytes(body)
            receiver.landed(part)
    spans = reservation.table.spans(0, 18)
    for layer in range(LAYERS):
        for which in (0, 1):
            assert torch.equal(cache.read(layer, which, spans), sent[layer, which])


@pytest.mark.parametrize("how", ["aborted", "first token"])
def test_lent_blocks_go_to_nobody_else_until_prefill_has_let_go(how: str) -> None:
    receiver, cache = make(shared=True)
    assert receiver.reserve(ONE, 2, 2, lambda _: None) is not None
    receiver.lend(ONE)
    for layer in range(LAYERS):
        receiver.place(frame(layer, 0, 2))
        receiver.landed(frame(layer, 0, 2))
    if how == "aborted":
        receiver.release(ONE)
        assert cache.free_blocks == BLOCKS - 1, "released while prefill may still write there"
        with pytest.raises(KvRefused):
            receiver.lend(ONE)
        receiver.aborted(ONE, "prefill has gone")
    else:
        receiver.first_token(FirstToken(request=ONE, token=1, prompt_tokens=2))
        assert cache.free_blocks == BLOCKS - 1
        receiver.release(ONE)
    assert cache.free_blocks == BLOCKS
    receiver.check_integrity()


def test_a_request_in_too_many_pieces_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_RUNS", 1)
    receiver, cache = make(shared=True)
    tables = [cache.allocate(BLOCK) for _ in range(BLOCKS)]
    for table in tables[1::2]:
        assert table is not None
        cache.release(table)
    assert receiver.reserve(ONE, 18, 20, lambda _: None) is not None
    with pytest.raises(KvRefused, match="too scattered"):
        receiver.lend(ONE)


def test_a_first_token_is_refused_while_a_frame_is_being_written() -> None:
    receiver, _ = make()
    reservation = receiver.reserve(ONE, 4, 4, lambda _: None)
    assert reservation is not None
    for layer in range(LAYERS):
        send(receiver, frame(layer, 0, 4), torch.ones(2, 4, HEADS, DIM))
    receiver.place(frame(0, 0, 4))
    with pytest.raises(KvRefused, match="still on its way"):
        receiver.first_token(FirstToken(request=ONE, token=1, prompt_tokens=4))
    assert not reservation.settled
    receiver.landed(frame(0, 0, 4))
    receiver.first_token(FirstToken(request=ONE, token=1, prompt_tokens=4))
    assert reservation.settled


def staged(room: StagingRoom, **changed: Any) -> tuple[KvReceiver, KvCache]:
    return make(landing=lambda cache: StagedLanding(cache, room), **changed)


def test_frames_that_are_staged_share_one_bounded_room() -> None:
    body = frame(0, 0, 4).body_bytes
    room = StagingRoom(2 * body, wait_s=0.05)
    receiver, _ = staged(room)
    requests = [bytes([number]) * 16 for number in range(1, 4)]
    for request in requests:
        assert receiver.reserve(request, 4, 4, lambda _: None) is not None
    for request in requests[:2]:
        receiver.place(frame(0, 0, 4, request))
    with pytest.raises(KvRefused, match="no memory free to stage it"):
        receiver.place(frame(0, 0, 4, requests[2]))
    assert room.taken == 2 * body
    receiver.landed(frame(0, 0, 4, requests[0]))
    receiver.place(frame(0, 0, 4, requests[2]))
    for request in requests[1:]:
        receiver.aborted(request, "given up")
    assert room.taken == 0


def test_a_frame_that_waits_for_room_is_staged_as_soon_as_there_is_some() -> None:
    body = frame(0, 0, 4).body_bytes
    receiver, _ = staged(StagingRoom(body, wait_s=20))
    for request in (ONE, TWO):
        assert receiver.reserve(request, 4, 4, lambda _: None) is not None
    receiver.place(frame(0, 0, 4))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(receiver.place, frame(0, 0, 4, TWO))
        receiver.landed(frame(0, 0, 4))
        assert waiting.result(20)


def test_a_refused_frame_leaves_no_room_taken() -> None:
    room = StagingRoom(1 << 20)
    receiver, _ = staged(room)
    for refused in (frame(0, 0, 4), frame(0, 0, 4, TWO)):
        with pytest.raises(KvRefused):
            receiver.place(refused)
    assert room.taken == 0


@pytest.mark.parametrize("have", [DType.FLOAT32, DType.BFLOAT16])
def test_values_that_float16_cannot_hold_cost_their_request_and_are_counted(have: DType) -> None:
    receiver, _ = make(DType.FLOAT16, can={Conversion.ROUNDING})
    assert receiver.reserve(ONE, 4, 4, lambda _: None) is not None
    kv = torch.ones(2, 4, HEADS, DIM, dtype=torch_dtype(have))
    kv[0, 1, 0, 0], kv[1, 0, 0, 3], kv[1, 3, 1, 7] = 1e5, -7e4, float("inf")
    with pytest.raises(KvRefused, match="2 of its values are beyond what float16 can hold; serve with bfloat16"):
        send(receiver, frame(0, 0, 4, dtype=have), kv)
    receiver.aborted(ONE, "refused")
    receiver.release(ONE)
    receiver.check_integrity()
