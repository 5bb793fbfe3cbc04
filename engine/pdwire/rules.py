"""One rule for each field of the compatibility record: what it means when the two sides differ, and what to do.

A rule gets both records and what the pair can convert, and answers None where there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import TypeAlias

from pdwire.dtypes import DType
from pdwire.layout import UNPACKED, Attention, ByteOrder, Layout
from pdwire.outcome import Conversion, Outcome, Side
from pdwire.record import CompatRecord
from pdwire.settings import one_value, setting


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a rule says of its field; as in FieldVerdict."""

    outcome: Outcome
    reason: str
    exact: bool = True
    side: Side = Side.NONE
    fix: str = ""


Judge: TypeAlias = Callable[[CompatRecord, CompatRecord, Set[Conversion]], Ruling | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """judge is asked where the two values differ, and with `always` also where they are equal."""

    field: str
    judge: Judge
    always: bool = False


def _refuse(reason: str, fix: str, side: Side = Side.EITHER) -> Ruling:
    return Ruling(Outcome.FATAL, reason, False, side, fix)


def _convert(how: str, *, exact: bool = True) -> Ruling:
    return Ruling(Outcome.CONVERTIBLE, how, exact)


def _fatal(reason: str, fix: str, side: Side = Side.EITHER) -> Judge:
    return lambda prefill, decode, can: _refuse(reason, fix, side)


def _convertible(how: str, *, exact: bool) -> Judge:
    return lambda prefill, decode, can: _convert(how, exact=exact)


def _protocol(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling:
    older = Side.PREFILL if prefill.protocol < decode.protocol else Side.DECODE
    return _refuse("neither can read the other's frames", "install the other side's pdctl version", older)


def _attention(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling | None:
    if prefill.attention is decode.attention is Attention.DENSE:
        return None
    if prefill.attention is not decode.attention:
        return _refuse("one side serves another kind of model", _SAME_MODEL)
    return _refuse(
        f"the KV contract carries dense K and V; {prefill.attention} is not supported yet",
        "serve this model from one pool, or let vLLM's own NixlConnector move its cache",
        Side.BOTH,
    )


_WIDENS = {(DType.FLOAT16, DType.FLOAT32), (DType.BFLOAT16, DType.FLOAT32)}


def dtype_conversion(have: DType, want: DType, can: Set[Conversion]) -> Conversion | None:
    """Which of what the pair can convert turns elements of `have` into such of `want`. None: nothing does."""
    if have.itemsize == 1 or want.itemsize == 1:
        return None
    needed = Conversion.DTYPE if (have, want) in _WIDENS else Conversion.ROUNDING
    return needed if needed in can else None


def _dtype(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling:
    have, want = prefill.dtype, decode.dtype
    scaled = prefill.kv_scales or decode.kv_scales
    match None if scaled else dtype_conversion(have, want, can):
        case Conversion.DTYPE:
            return _convert(f"every {have.label} is a {want.label}")
        case Conversion.ROUNDING:
            how = f"{have.label} is rounded to {want.label}, to nearest even"
            narrow = "; a value beyond 65504, which it cannot hold, costs its request" if want is DType.FLOAT16 else ""
            return _convert(how + narrow, exact=False)
        case _:
            pass
    reason = f"KV bytes are stored as sent; {have.label} read as {want.label} is garbage"
    roundable = prefill.engine == decode.engine == "torch" and not scaled and have.itemsize > 1 and want.itemsize > 1
    may = "; or `kv_rounding: true` on both" if roundable else ""
    return _refuse(reason, one_value(prefill, decode, "dtype") + may)


def _kv_scales(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling:
    return _refuse(
        "quantised KV read with other scales has other values",
        "load the same KV scales on both, from one checkpoint, or use an unquantised KV dtype",
    )


def _tp_size(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling:
    if Conversion.TP in can:
        return _convert("KV heads are regrouped between the ranks")
    reason = (
        f"a prefill rank holds {_heads(prefill)}, a decode rank {_heads(decode)}, of the model's {prefill.kv_heads} KV"
        " heads"
    )
    return _refuse(reason, one_value(prefill, decode, "tp_size"))


def _heads(record: CompatRecord) -> str:
    held = f"{record.rank_kv_heads}"
    return f"{held} (the same on {record.kv_replicas} ranks)" if record.kv_replicas > 1 else held


def _tp_rank(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling:
    if Conversion.TP in can:
        return _convert("KV heads are regrouped between the ranks")
    if prefill.rank_head_range == decode.rank_head_range:
        return _convert("the two ranks hold the same KV heads")
    return _refuse(
        "the two ranks hold different KV heads",
        f"connect prefill rank {prefill.tp_rank} to decode rank {prefill.tp_rank}",
        Side.PREFILL,
    )


def _plain(record: CompatRecord) -> bool:
    return record.layout is Layout.TOKEN_MAJOR and record.isa_layout == UNPACKED


def _block_tokens(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling:
    if _plain(prefill) and _plain(decode):
        return _convert("the wire is token-major; each side cuts its own blocks")
    if Conversion.BLOCK in can:
        return _convert("blocks are cut anew on the way")
    return _refuse(
        "blocks that are not token-major move whole, and a block of the one is not a block of the other",
        one_value(prefill, decode, "block_tokens"),
    )


def _layout(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling:
    if Conversion.LAYOUT in can:
        return _convert(f"{prefill.layout} is turned into {decode.layout}")
    wrong = Side.PREFILL if prefill.layout is not Layout.TOKEN_MAJOR else Side.DECODE
    return _refuse(
        "the element count is the same, so nothing fails: heads and tokens are silently exchanged",
        f"let {wrong} adapt its cache to {Layout.TOKEN_MAJOR}, which is the contract's order",
        wrong,
    )


def _byte_order(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling:
    if Conversion.BYTE_ORDER in can:
        return _convert("the bytes of each element are reversed")
    wrong = Side.PREFILL if prefill.byte_order is not ByteOrder.LITTLE else Side.DECODE
    return _refuse("every element would be read backwards", f"let {wrong} use little-endian elements", wrong)


def _isa_layout(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling:
    if Conversion.LAYOUT in can:
        return _convert("blocks are unpacked and packed again")
    return _refuse(
        "blocks are packed for one instruction set (K transposed, a head at a time) and mean nothing to another",
        "run both sides on processors of one kind, or unpack to the contract's order before sending",
        Side.BOTH,
    )


def _transports(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling:
    common = [name for name in prefill.transports if name in decode.transports]
    if common:
        return _convert(f"both speak {', '.join(common)}")
    return _refuse(
        "they share no transport",
        f"enable one of {', '.join(decode.transports)} on prefill, or of {', '.join(prefill.transports)} on decode",
    )


def _attention_backend(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Ruling:
    pin = setting(decode, "attention_backend", prefill.attention_backend)
    advice = f"; {pin} on decode makes it one" if decode.engine == prefill.engine == "vllm" else ""
    return _convert(_NEAR_TIES + advice, exact=False)


_SAME_MODEL = "serve the same model directory on both"
_SAME_ROPE = "set the same value in config.json (or its override flag) on both; never only on one side"
_NEAR_TIES = "the KV layout is the same, its rounding may differ: tokens can differ where two candidates nearly tie"

RULES: tuple[Rule, ...] = (
    Rule("protocol", _protocol),
    Rule("attention", _attention, always=True),
    Rule(
        "model_digest",
        _fatal(
            "KV of other weights or another config.json means nothing here",
            "deploy the same weights and config.json to both",
        ),
    ),
    Rule(
        "tokenizer_digest",
        _fatal("the same token ids stand for other text", "deploy the same tokenizer files to both"),
    ),
    Rule("rope", _fatal("K is stored after rotation, so both must rotate alike", _SAME_ROPE)),
    Rule("layers", _fatal("a different number of layers", _SAME_MODEL)),
    Rule("kv_heads", _fatal("a different number of KV heads (not attention heads)", _SAME_MODEL)),
    Rule("head_dim", _fatal("a different head size", _SAME_MODEL)),
    Rule("dtype", _dtype),
    Rule("kv_scales", _kv_scales),
    Rule("tp_size", _tp_size),
    Rule("tp_rank", _tp_rank),
    Rule("block_tokens", _block_tokens),
    Rule("layout", _layout),
    Rule("byte_order", _byte_order),
    Rule("isa_layout", _isa_layout),
    Rule("engine", _convertible(_NEAR_TIES, exact=False)),
    Rule("engine_version", _convertible(_NEAR_TIES, exact=False)),
    Rule("attention_backend", _attention_backend),
    Rule("capacity_tokens", _convertible("each side has its own cache; decode's bounds what it takes", exact=True)),
    Rule("transports", _transports),
)
"""One for each compared field of CompatRecord, in the order in which a reader wants to hear of them."""
