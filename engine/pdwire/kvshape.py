"""Is this the KV that was agreed? Questions about shapes, asked of HELLOs, frames and tensors; values are not read.

Every answer is None or a `ShapeFault` that names layer, field, expected, got and the side to change. The causes that
look alike from outside (dimension order, dtype, batch dimension) and the ones that really happen (attention heads for
KV heads, another rank's share, whole blocks, a token too few) are told apart as far as the numbers can show it.
`check_frame` is a few comparisons when all is well; the reasons are sought only after one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pdwire.dtypes import DType
from pdwire.frames import LayerFrame
from pdwire.outcome import Side
from pdwire.record import CompatRecord


@dataclass(frozen=True, slots=True)
class ShapeFault:
    """layer: None for what concerns all of them. field: `K`, `V`, or the header's name for it. cause: one line."""

    field: str
    expected: str
    got: str
    cause: str
    side: Side
    fix: str
    layer: int | None = None

    def __str__(self) -> str:
        where = "all layers" if self.layer is None else f"layer {self.layer}"
        return (
            f"{where} {self.field}: expected {self.expected}, got {self.got}: {self.cause}; "
            f"change {self.side}: {self.fix}"
        )


_AXES = "exchange the axes to [tokens, kv_heads, head_dim]"


def check_record(record: CompatRecord, side: Side) -> ShapeFault | None:
    """Of a HELLO: are the scales of a kind that its dtype can have?"""
    if record.kv_scales and record.dtype.itemsize > 1:
        return ShapeFault(
            "kv_scales",
            f"none for {record.dtype.label}",
            str(len(record.kv_scales)),
            "scales belong to a quantised KV dtype",
            side,
            "leave them out, or announce the dtype that the cache really holds",
        )
    for index, scale in enumerate(record.kv_scales):
        if scale <= 0:
            return ShapeFault(
                f"{'KV'[index % 2]} scale",
                "above 0",
                repr(scale),
                "every element of the layer would become 0 or change its sign",
                side,
                "load the scales from the checkpoint again",
                index // 2,
            )
    return None


def check_frame(
    frame: LayerFrame, record: CompatRecord, capacity_tokens: int, sender: Side = Side.PREFILL
) -> ShapeFault | None:
    """record: of the side in whose form frames travel. capacity_tokens: of decode's cache.

    A frame out of that shape is the sender's to change.
    """
    if (
        frame.kv_heads == record.rank_kv_heads
        and frame.head_dim == record.head_dim
        and frame.dtype is record.dtype
        and frame.layer < record.layers
        and frame.end_token <= capacity_tokens
    ):
        return None
    return _frame_fault(frame, record, capacity_tokens, sender)


def _frame_fault(frame: LayerFrame, record: CompatRecord, capacity_tokens: int, sender: Side) -> ShapeFault:
    def fault(field: str, expected: object, got: object, cause: str, fix: str) -> ShapeFault:
        return ShapeFault(field, str(expected), str(got), cause, sender, fix, frame.layer)

    heads, width = record.rank_kv_heads, record.head_dim
    if frame.dtype is not record.dtype:
        return _dtype_fault(frame.layer, "dtype", frame.dtype, record.dtype, sender)
    if frame.layer >= record.layers:
        known = f"0 to {record.layers - 1}"
        return fault("layer", known, frame.layer, "the model has no such layer", "serve the same model on both")
    if (frame.kv_heads, frame.head_dim) == (width, heads):
        cause = "kv_heads and head_dim are exchanged"
        return fault("shape", f"[{heads}, {width}]", f"[{frame.kv_heads}, {frame.head_dim}]", cause, _AXES)
    if frame.kv_heads != heads and frame.count == heads:
        cause = "tokens and kv_heads are exchanged: head-major given for token-major"
        return fault("kv_heads", heads, frame.kv_heads, cause, _AXES)
    if frame.kv_heads != heads:
        return fault("kv_heads", heads, frame.kv_heads, *_head_cause(frame.kv_heads, record))
    if frame.head_dim != width:
        return fault("head_dim", width, frame.head_dim, *_width_cause(frame.head_dim, width))
    return fault(
        "tokens",
        f"positions below {capacity_tokens}",
        f"{frame.first_token}..{frame.end_token - 1}",
        "more tokens than decode's whole cache holds",
        "send only what decode's ticket reserved",
    )


def check_tensor(
    layer: int,
    part: str,
    shape: Sequence[int],
    dtype: DType,
    record: CompatRecord,
    tokens: int,
    *,
    attention_heads: int | None = None,
    strides: Sequence[int] | None = None,
    side: Side = Side.PREFILL,
) -> ShapeFault | None:
    """K or V of one layer as an engine holds it, before it is sent or after it has landed.

    Expected: `[tokens, kv_heads of the rank, head_dim]`, token-major, of the record's dtype. part: `K` or `V`.
    strides: in bytes, as numpy gives them; they show an exchanged order also where the numbers coincide
    (tokens = kv_heads), which the shape alone cannot. attention_heads: of the whole model, to recognise them.
    """
    want = (tokens, record.rank_kv_heads, record.head_dim)
    got = tuple(shape)

    def fault(cause: str, fix: str) -> ShapeFault:
        return ShapeFault(part, _axes(want), str(list(got)), cause, side, fix, layer)

    if dtype is not record.dtype:
        return _dtype_fault(layer, part, dtype, record.dtype, side)
    if got == want:
        if strides is None or not _head_major(want, strides):
            return None
        return fault(
            f"a transposed view: its strides {list(strides)} are head-major, and so would be its bytes",
            "make it contiguous (`.contiguous()`) before its bytes are taken",
        )
    if len(got) == 4:
        return _four_axes(got, want, fault)
    if len(got) != 3:
        return fault(f"{len(got)} axes", "give [tokens, kv_heads, head_dim]")
    if got == (want[1], want[0], want[2]):
        return fault("dimension order: head-major given for token-major", _AXES)
    if sorted(got) == sorted(want):
        return fault("dimension order: the same numbers in another order", _AXES)
    if got[1:] == want[1:]:
        return fault(*_token_cause(got[0], tokens, record.block_tokens))
    if got[2] != want[2]:
        return fault(*_width_cause(got[2], want[2]))
    heads = got[0] if got[1] == tokens else got[1]
    return fault(*_head_cause(heads, record, attention_heads))


def check_tokens(layer: int, have: int, prompt_tokens: int, side: Side = Side.PREFILL) -> ShapeFault | None:
    """have: tokens of one layer that landed, from position 0 without a hole. The contract: all of the prompt's."""
    if have == prompt_tokens:
        return None
    cause, fix = _token_cause(have, prompt_tokens)
    return ShapeFault("tokens", str(prompt_tokens), str(have), cause, side, fix, layer)


def _four_axes(got: tuple[int, ...], want: tuple[int, int, int], fault: Callable[[str, str], ShapeFault]) -> ShapeFault:
    tokens, heads, width = want
    if got[0] == 1 and got[1:] == want:
        return fault("a batch dimension of 1 in front", "drop it: `[0]`")
    if got[0] == 1 and got[1:] == (heads, tokens, width):
        cause = "a batch dimension of 1 in front and head-major after it, as in a Hugging Face cache"
        return fault(cause, "drop it and exchange the axes: `[0].transpose(0, 1)`")
    if sorted(got[1:]) == sorted(want):
        return fault(f"a batch of {got[0]} sequences", "send one request's KV at a time")
    if got[2:] == (heads, width) and got[0] * got[1] >= tokens:
        return fault(f"whole blocks of {got[1]} tokens, not tokens", f"flatten the blocks and keep {tokens} tokens")
    if (got[1], got[3]) == (heads, width) and got[0] * got[2] >= tokens:
        cause = f"whole head-major blocks of {got[2]} tokens, not tokens"
        return fault(cause, f"exchange heads and tokens in each block, flatten the blocks and keep {tokens} tokens")
    return fault("4 axes", "give [tokens, kv_heads, head_dim]")


def _axes(want: tuple[int, int, int]) -> str:
    return f"[tokens {want[0]}, kv_heads {want[1]}, head_dim {want[2]}]"


def _head_major(shape: tuple[int, int, int], strides: Sequence[int]) -> bool:
    """Whether one head's tokens lie together. An axis of length 1 may have any stride."""
    return shape[0] > 1 and shape[1] > 1 and strides[0] < strides[1]


def _dtype_fault(layer: int, field: str, got: DType, want: DType, side: Side) -> ShapeFault:
    if got.itemsize != want.itemsize:
        cause = f"{got.itemsize} bytes an element where {want.itemsize} are read: another number of other values"
    else:
        cause = "as many bytes an element, other values"
    fix = f"convert to {want.label} before sending, or start both engines with one KV dtype"
    return ShapeFault(field, want.label, got.label, cause, side, fix, layer)


def _head_cause(heads: int, record: CompatRecord, attention_heads: int | None = None) -> tuple[str, str]:
    """Cause and fix of a wrong number of heads."""
    unrepeated = "take K and V before they are repeated for each query head"
    if attention_heads is not None and heads * record.tp_size == attention_heads:
        return "attention heads, where KV heads are meant", unrepeated
    if heads == record.kv_heads:
        mine = record.rank_head_range
        share = f"all KV heads of the model, where rank {record.tp_rank} of {record.tp_size} holds its share"
        return share, f"send heads {mine.start} to {mine.stop - 1}, or give both sides one tensor-parallel size"
    if record.kv_heads % heads == 0:
        share = f"the share of tensor-parallel size {record.kv_heads // heads}, where {record.tp_size} is agreed"
        return share, "give both sides one tensor-parallel size"
    if heads % record.kv_heads == 0:
        return f"{heads // record.kv_heads} times the model's KV heads: repeated, or attention heads", unrepeated
    return "another model's number of KV heads", "serve the same model on both"


def _width_cause(got: int, want: int) -> tuple[str, str]:
    if got == 2 * want:
        return "K and V side by side in one row", "split the row: K is its first half, V its second"
    return "another model's head size, or a kernel's padding", "serve the same model, and cut padding off"


def _token_cause(have: int, want: int, block_tokens: int = 0) -> tuple[str, str]:
    if have == want - 1:
        return "the last prompt token is missing", "send KV of every prompt token; decode itself leaves out the last"
    if block_tokens and have == -(-want // block_tokens) * block_tokens:
        return f"padded to whole blocks of {block_tokens} tokens", f"cut to {want} tokens"
    if have == want + 1:
        return "one token too many: KV of the first generated token", "stop before the first token's own KV"
    return "tokens are missing" if have < want else "more tokens than the prompt has", f"send {want} tokens"
