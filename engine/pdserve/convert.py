"""KV in one form to KV in another: axes, blocks, dtypes, byte order, tensor-parallel shares.

Canonical is K, or V, of one layer and one run of tokens as `[tokens, kv_heads, head_dim]`, little-endian. All functions
take K and V alike, one at a time. numpy has no bfloat16 and no float8, so an array holds such elements as unsigned
integers of their width; which dtype they are is said beside the array. All but `cast` keep every bit, and going there
and back is the identity. Errors are ValueError: the caller has checked shapes (pdwire.kvshape) and a mistake is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdwire import DType
from pdwire.record import rank_heads

Array: TypeAlias = NDArray[Any]

_STORAGE = {
    DType.FLOAT32: "<f4",
    DType.FLOAT16: "<f2",
    DType.BFLOAT16: "<u2",
    DType.FLOAT8_E4M3FN: "u1",
    DType.FLOAT8_E5M2: "u1",
}


def storage(dtype: DType) -> np.dtype[Any]:
    """The numpy dtype that holds elements of `dtype`, little-endian."""
    return np.dtype(_STORAGE[dtype])


def exchange_axes(kv: Array) -> Array:
    """[tokens, kv_heads, head_dim] ↔ [kv_heads, tokens, head_dim]: token-major ↔ head-major. Contiguous."""
    if kv.ndim != 3:
        raise ValueError(f"3 axes expected: {list(kv.shape)}")
    return np.ascontiguousarray(kv.transpose(1, 0, 2))


def to_blocks(kv: Array, block_tokens: int, *, head_major: bool = False) -> Array:
    """[tokens, kv_heads, head_dim] → [blocks, block_tokens, kv_heads, head_dim]; the last block is filled up with 0.

    head_major: each block as [kv_heads, block_tokens, head_dim].
    """
    tokens = kv.shape[0]
    blocks = -(-tokens // block_tokens)
    whole = np.zeros((blocks * block_tokens, *kv.shape[1:]), kv.dtype)
    whole[:tokens] = kv
    cut = whole.reshape(blocks, block_tokens, *kv.shape[1:])
    return np.ascontiguousarray(cut.transpose(0, 2, 1, 3)) if head_major else cut


def from_blocks(blocks: Array, tokens: int, *, head_major: bool = False) -> Array:
    """The way back: the first `tokens` tokens of [blocks, block_tokens, kv_heads, head_dim]."""
    token_major = blocks.transpose(0, 2, 1, 3) if head_major else blocks
    count, block_tokens, *rest = token_major.shape
    if not 0 <= tokens <= count * block_tokens:
        raise ValueError(f"{tokens} tokens are not in {count} blocks of {block_tokens}")
    return np.ascontiguousarray(token_major.reshape(count * block_tokens, *rest)[:tokens])


def reblock(blocks: Array, tokens: int, block_tokens: int, *, head_major: bool = False) -> Array:
    """Blocks of one size to blocks of another, `tokens` tokens of them."""
    return to_blocks(from_blocks(blocks, tokens, head_major=head_major), block_tokens, head_major=head_major)


def swap_bytes(kv: Array, dtype: DType) -> Array:
    """The bytes of each element reversed; the result's numpy dtype still says little-endian."""
    return kv.view(storage(dtype)).byteswap()


def cast(kv: Array, have: DType, want: DType) -> Array:
    """float32, float16 or bfloat16 to another of them. kv: elements of `have`; the result: elements of `want`.

    Widening (to float32) is exact. Narrowing rounds to nearest, ties to even, once: float16 and bfloat16 go to each
    other through float32, which holds both exactly. Beyond the narrower dtype's range the value becomes infinite;
    infinities, signed zeros and subnormals stay; a NaN stays a NaN of its sign.
    Raises ValueError for a quantised dtype, whose values need scales.
    """
    for dtype in (have, want):
        if dtype.itemsize == 1:
            raise ValueError(f"{dtype.label} cannot be converted without its scales")
    kv = kv.view(storage(have))
    if have is want:
        return kv.copy()
    wide = _bfloat16_to_float32(kv) if have is DType.BFLOAT16 else kv.astype("<f4")
    if want is DType.BFLOAT16:
        return _float32_to_bfloat16(wide)
    with np.errstate(over="ignore"):
        return wide.astype(storage(want))


def _bfloat16_to_float32(bits: Array) -> Array:
    return (bits.astype("<u4") << 16).view("<f4")


def _float32_to_bfloat16(values: Array) -> Array:
    """Adding half of what is cut off, less one where the kept part is even, carries into the kept part as rounding."""
    bits = np.ascontiguousarray(values).view("<u4")
    rounded = ((bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype("<u2")
    # A NaN whose payload lies in the lower half alone would become an infinity.
    quiet = ((bits >> 16) | np.uint32(0x0040)).astype("<u2")
    return np.where(np.isnan(values), quiet, rounded).astype("<u2")


@dataclass(frozen=True, slots=True)
class Share:
    """Where a run of one decode rank's KV heads comes from. source, target: [start, stop) on the axis of heads."""

    prefill_rank: int
    source: tuple[int, int]
    target: tuple[int, int]


def shares(kv_heads: int, prefill_tp: int, decode_tp: int, decode_rank: int) -> tuple[Share, ...]:
    """What a decode rank takes, from which prefill ranks; every one of its heads once, in order.

    Of several prefill replicas of a head, the decode replicas take one each in turn, so that the load is spread.
    Raises LocalProtocolError for sizes that neither divide the heads nor are multiples of them.
    """
    wanted = rank_heads(kv_heads, decode_tp, decode_rank)
    held, prefill_replicas = len(rank_heads(kv_heads, prefill_tp, 0)), max(1, prefill_tp // kv_heads)
    decode_replica = decode_rank % max(1, decode_tp // kv_heads)
    found: list[Share] = []
    head = wanted.start
    while head < wanted.stop:
        group = head // held
        stop = min(wanted.stop, (group + 1) * held)
        source = (head - group * held, stop - group * held)
        rank = group * prefill_replicas + decode_replica % prefill_replicas
        found.append(Share(rank, source, (head - wanted.start, stop - wanted.start)))
        head = stop
    return tuple(found)


def reshard(ranks: Sequence[Array], kv_heads: int, decode_tp: int) -> list[Array]:
    """Each prefill rank's [tokens, heads, head_dim], in order of rank, to each decode rank's."""
    return [
        np.concatenate(
            [
                ranks[share.prefill_rank][:, share.source[0] : share.source[1]]
                for share in shares(kv_heads, len(ranks), decode_tp, rank)
            ],
            axis=1,
        )
        for rank in range(decode_tp)
    ]
