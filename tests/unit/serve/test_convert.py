"""Conversion of KV: there and back is the identity where it is exact, and rounding is torch's where it is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdserve.convert import (
    Array,
    cast,
    exchange_axes,
    from_blocks,
    reblock,
    reshard,
    shares,
    storage,
    swap_bytes,
    to_blocks,
)
from pdwire import DType, LocalProtocolError
from pdwire.record import rank_heads

pytestmark = pytest.mark.engine

FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
dtypes = st.sampled_from(list(DType))
TP_SIZES = [(heads, tp) for heads in (1, 2, 4, 6, 8) for tp in (1, 2, 3, 4, 8, 16) if not (heads % tp and tp % heads)]


def noise(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    raw = np.random.default_rng(seed).integers(0, 256, (*shape[:-1], shape[-1] * dtype.itemsize), np.uint8)
    return raw.view(storage(dtype))


def bits(values: Array) -> bytes:
    return np.ascontiguousarray(values).tobytes()


@given(tokens=st.integers(1, 40), heads=st.integers(1, 8), width=st.integers(1, 9), dtype=dtypes)
def test_axes_there_and_back(tokens: int, heads: int, width: int, dtype: DType) -> None:
    kv = noise((tokens, heads, width), dtype)
    there = exchange_axes(kv)
    assert there.shape == (heads, tokens, width)
    assert there.flags.c_contiguous
    assert bits(there[heads - 1, 0]) == bits(kv[0, heads - 1])
    assert bits(exchange_axes(there)) == bits(kv)


@given(
    tokens=st.integers(1, 70),
    first=st.integers(1, 33),
    second=st.integers(1, 33),
    head_major=st.booleans(),
    dtype=dtypes,
)
def test_blocks_there_and_back_and_to_another_size(
    tokens: int, first: int, second: int, head_major: bool, dtype: DType
) -> None:
    kv = noise((tokens, 3, 4), dtype)
    blocks = to_blocks(kv, first, head_major=head_major)
    assert blocks.shape[:2] == (-(-tokens // first), 3 if head_major else first)
    other = reblock(blocks, tokens, second, head_major=head_major)
    assert bits(from_blocks(other, tokens, head_major=head_major)) == bits(kv)
    assert bits(reblock(other, tokens, first, head_major=head_major)) == bits(blocks)


def test_token_t_lies_in_block_t_div_size_at_t_mod_size() -> None:
    kv = np.arange(10 * 2 * 3, dtype="<f4").reshape(10, 2, 3)
    blocks, packed = to_blocks(kv, 4), to_blocks(kv, 4, head_major=True)
    for token in range(10):
        np.testing.assert_array_equal(blocks[token // 4, token % 4], kv[token])
        np.testing.assert_array_equal(packed[token // 4, :, token % 4], kv[token])
    assert not blocks[2, 2:].any()


def test_more_tokens_than_the_blocks_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="9 tokens are not in 2 blocks of 4"):
        from_blocks(np.zeros((2, 4, 1, 1), "<f4"), 9)


@given(dtype=dtypes)
def test_byte_order_there_and_back(dtype: DType) -> None:
    kv = noise((5, 2, 4), dtype)
    there = swap_bytes(kv, dtype)
    assert bits(there) == b"".join(
        bits(kv)[at : at + dtype.itemsize][::-1] for at in range(0, kv.nbytes, dtype.itemsize)
    )
    assert bits(swap_bytes(there, dtype)) == bits(kv)


@given(
    pair=st.sampled_from([(a, b) for a in TP_SIZES for b in TP_SIZES if a[0] == b[0]]),
    tokens=st.integers(1, 5),
)
def test_resharding_gives_each_rank_its_heads_and_comes_back(
    pair: tuple[tuple[int, int], tuple[int, int]], tokens: int
) -> None:
    (heads, prefill_tp), (_, decode_tp) = pair
    whole = noise((tokens, heads, 4), DType.BFLOAT16)

    def rank(tp: int, number: int) -> Array:
        held = rank_heads(heads, tp, number)
        return whole[:, held.start : held.stop]

    prefill = [rank(prefill_tp, number) for number in range(prefill_tp)]
    decode = reshard(prefill, heads, decode_tp)
    assert [bits(kv) for kv in decode] == [bits(rank(decode_tp, number)) for number in range(decode_tp)]
    assert [bits(kv) for kv in reshard(decode, heads, prefill_tp)] == [bits(kv) for kv in prefill]


def test_replicas_of_a_head_are_asked_in_turn() -> None:
    sources = [shares(2, 8, 4, rank)[0].prefill_rank for rank in range(4)]
    assert sources == [0, 1, 4, 5]


def test_a_tensor_parallel_size_that_does_not_divide_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="divide kv_heads"):
        shares(8, 3, 1, 0)


@pytest.mark.parametrize("have", FLOATS)
@pytest.mark.parametrize("want", FLOATS)
def test_every_16_bit_pattern_and_the_borders_of_32_bits_convert_as_in_torch(have: DType, want: DType) -> None:
    import torch

    from pdserve.tensors import torch_dtype

    if have.itemsize == 2:
        kv = np.arange(1 << 16, dtype="<u2")
    else:
        upper = np.arange(1 << 16, dtype="<u4") << 16
        lower = (0, 1, 0x0FFF, 0x1000, 0x1001, 0x2000, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
        kv = np.concatenate([upper | value for value in lower])
    theirs = torch.from_numpy(kv.copy().view(f"<i{have.itemsize}")).view(torch_dtype(have)).to(torch_dtype(want))
    expected = theirs.view({2: torch.int16, 4: torch.int32}[want.itemsize]).numpy().view(f"<u{want.itemsize}")
    ours = cast(kv, have, want).view(f"<u{want.itemsize}")
    nan = theirs.isnan().numpy()
    np.testing.assert_array_equal(ours[~nan], expected[~nan])
    ours_as_torch = torch.from_numpy(ours.copy().view(f"<i{want.itemsize}")).view(torch_dtype(want))
    assert bool(ours_as_torch.isnan().numpy()[nan].all())
    top = 1 << (8 * want.itemsize - 1)
    sign_in = kv[nan] >> (8 * have.itemsize - 1)
    np.testing.assert_array_equal((ours[nan] & top) != 0, sign_in != 0)


@pytest.mark.parametrize("narrow", [DType.FLOAT16, DType.BFLOAT16])
def test_widening_and_back_keeps_every_bit_of_every_number(narrow: DType) -> None:
    kv = np.arange(1 << 16, dtype="<u2")
    wide = cast(kv, narrow, DType.FLOAT32)
    back = cast(wide, DType.FLOAT32, narrow).view("<u2")
    number = ~np.isnan(wide)
    np.testing.assert_array_equal(back[number], kv[number])


@pytest.mark.parametrize("quantised", [DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2])
def test_a_quantised_cache_is_not_converted_without_its_scales(quantised: DType) -> None:
    with pytest.raises(ValueError, match="without its scales"):
        cast(noise((1, 1, 4), quantised), quantised, DType.FLOAT16)
