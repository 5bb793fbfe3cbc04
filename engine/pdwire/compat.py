"""Can this prefill engine feed that decode engine? One pure function over two records, one rule for each field.

A rule gets both records and answers None where they agree, else an outcome with its reason. Every answer carries both
values, the side to change and the change. The same function serves the handshake and the verdict before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pdwire.dtypes import DType
from pdwire.record import CompatRecord, RopeValue


class Conversion(StrEnum):
    """What a pair of engines may be able to convert on the way. None of them is assumed."""

    DTYPE = "dtype"
    TP = "tp"


class Outcome(StrEnum):
    EQUAL = "equal"
    CONVERTIBLE = "convertible"
    FATAL = "fatal"


class Side(StrEnum):
    """Which side the fix is for."""

    PREFILL = "prefill"
    DECODE = "decode"
    EITHER = "either side"
    BOTH = "both sides"
    NONE = "nothing to do"


@dataclass(frozen=True, slots=True)
class FieldVerdict:
    """One field. reason: for a convertible one how, for a fatal one why. exact: the conversion keeps every bit."""

    field: str
    outcome: Outcome
    prefill: str
    decode: str
    reason: str = ""
    exact: bool = True
    side: Side = Side.NONE
    fix: str = ""

    def __str__(self) -> str:
        values = f"{self.field}: prefill {self.prefill}, decode {self.decode}"
        if self.outcome is Outcome.EQUAL:
            return f"equal: {self.field}: {self.prefill}"
        if self.outcome is Outcome.CONVERTIBLE:
            return f"convertible ({'exact' if self.exact else 'not exact'}): {values}: {self.reason}"
        return f"fatal: {values}: {self.reason}; fix ({self.side}): {self.fix}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """All fields, in the order of RULES."""

    prefill: str
    decode: str
    fields: tuple[FieldVerdict, ...]

    @property
    def ok(self) -> bool:
        return not self.fatal

    @property
    def exact(self) -> bool:
        """Decode gets, to the bit, the KV that it would have computed itself on the prefill side's engine."""
        return self.ok and all(field.exact for field in self.fields)

    @property
    def fatal(self) -> tuple[FieldVerdict, ...]:
        return tuple(field for field in self.fields if field.outcome is Outcome.FATAL)

    @property
    def differing(self) -> tuple[FieldVerdict, ...]:
        return tuple(field for field in self.fields if field.outcome is not Outcome.EQUAL)

    def __str__(self) -> str:
        pair = f"{self.prefill} -> {self.decode}"
        if self.ok:
            return f"{pair}: compatible" + "".join(f"; {field}" for field in self.differing)
        return f"{pair}: incompatible; " + "; ".join(map(str, self.fatal))


@dataclass(frozen=True, slots=True)
class _Differs:
    outcome: Outcome
    reason: str
    exact: bool = True
    side: Side = Side.NONE
    fix: str = ""


_Judge: TypeAlias = Callable[[CompatRecord, CompatRecord, Set[Conversion]], _Differs]


@dataclass(frozen=True, slots=True)
class Rule:
    """judge is asked only where the two values differ."""

    field: str
    judge: _Judge


def _fatal(reason: str, fix: str, side: Side = Side.EITHER) -> _Judge:
    return lambda prefill, decode, can: _Differs(Outcome.FATAL, reason, False, side, fix)


def _convertible(how: str, *, exact: bool) -> _Judge:
    return lambda prefill, decode, can: _Differs(Outcome.CONVERTIBLE, how, exact)


_WIDENS = {(DType.FLOAT16, DType.FLOAT32), (DType.BFLOAT16, DType.FLOAT32)}


def _dtype(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> _Differs:
    have, want = prefill.dtype, decode.dtype
    if Conversion.DTYPE not in can or prefill.kv_scales != "none" or decode.kv_scales != "none":
        return _Differs(
            Outcome.FATAL,
            f"KV bytes are stored as sent; {have.label} read as {want.label} is garbage",
            False,
            Side.EITHER,
            f"start both engines with one KV dtype: `--dtype {want.label}` on prefill, or {have.label} on decode",
        )
    if (have, want) in _WIDENS:
        return _Differs(Outcome.CONVERTIBLE, f"every {have.label} is a {want.label}")
    return _Differs(Outcome.CONVERTIBLE, f"{have.label} is rounded to {want.label}, to nearest even", False)


def _tp_size(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> _Differs:
    if Conversion.TP in can:
        return _Differs(Outcome.CONVERTIBLE, "KV heads are regrouped between the ranks")
    return _Differs(
        Outcome.FATAL,
        f"a prefill rank holds {prefill.rank_kv_heads} KV heads, a decode rank {decode.rank_kv_heads}",
        False,
        Side.EITHER,
        f"start both with one tensor-parallel size: {decode.tp_size} on prefill, or {prefill.tp_size} on decode",
    )


def _tp_rank(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> _Differs:
    if Conversion.TP in can:
        return _Differs(Outcome.CONVERTIBLE, "KV heads are regrouped between the ranks")
    return _Differs(
        Outcome.FATAL,
        "the two ranks hold different KV heads",
        False,
        Side.PREFILL,
        f"connect prefill rank {prefill.tp_rank} to decode rank {prefill.tp_rank}",
    )


def _protocol_fix(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> _Differs:
    older = Side.PREFILL if prefill.protocol < decode.protocol else Side.DECODE
    return _Differs(
        Outcome.FATAL, "neither can read the other's frames", False, older, "install the other side's pdctl version"
    )


def _transports(prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> _Differs:
    common = [name for name in prefill.transports if name in decode.transports]
    if common:
        return _Differs(Outcome.CONVERTIBLE, f"both speak {', '.join(common)}")
    return _Differs(
        Outcome.FATAL,
        "they share no transport",
        False,
        Side.EITHER,
        f"enable one of {', '.join(decode.transports)} on prefill, or of {', '.join(prefill.transports)} on decode",
    )


_SAME_MODEL = "serve the same model directory on both"
_SAME_ROPE = "set the same value in config.json (or its override flag) on both; never only on one side"
_NEAR_TIES = "the KV layout is the same, its rounding may differ: tokens can differ where two candidates nearly tie"

RULES: tuple[Rule, ...] = (
    Rule("protocol", _protocol_fix),
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
    Rule(
        "kv_scales",
        _fatal(
            "quantised KV read with other scales has other values",
            "load the same KV scales on both, or use an unquantised KV dtype",
        ),
    ),
    Rule("tp_size", _tp_size),
    Rule("tp_rank", _tp_rank),
    Rule("block_tokens", _convertible("the wire is token-major; each side cuts its own blocks", exact=True)),
    Rule("engine", _convertible(_NEAR_TIES, exact=False)),
    Rule("engine_version", _convertible(_NEAR_TIES, exact=False)),
    Rule("attention_backend", _convertible(_NEAR_TIES, exact=False)),
    Rule("capacity_tokens", _convertible("each side has its own cache; decode's bounds what it takes", exact=True)),
    Rule("transports", _transports),
)
"""One for each compared field of CompatRecord, in the order in which a reader wants to hear of them."""


def verdict(prefill: CompatRecord, decode: CompatRecord, *, can: Set[Conversion] = frozenset()) -> Verdict:
    """Compares field by field. can: what these two engines can convert, and so need not refuse."""
    return Verdict(
        prefill.name,
        decode.name,
        tuple(result for rule in RULES for result in _apply(rule, prefill, decode, can)),
    )


def _apply(rule: Rule, prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Iterator[FieldVerdict]:
    for field, ours, theirs in _values(rule.field, prefill, decode):
        if ours == theirs:
            yield FieldVerdict(field, Outcome.EQUAL, _show(ours), _show(theirs))
            continue
        differs = rule.judge(prefill, decode, can)
        yield FieldVerdict(
            field, differs.outcome, _show(ours), _show(theirs), differs.reason, differs.exact, differs.side, differs.fix
        )


_ABSENT = object()


def _values(field: str, prefill: CompatRecord, decode: CompatRecord) -> Iterator[tuple[str, object, object]]:
    """RoPE is compared key by key, so that the verdict names the key and not two dictionaries."""
    if field != "rope":
        yield field, getattr(prefill, field), getattr(decode, field)
        return
    for key in sorted(prefill.rope.keys() | decode.rope.keys()):
        yield f"rope.{key}", prefill.rope.get(key, _ABSENT), decode.rope.get(key, _ABSENT)


def _show(value: object | RopeValue) -> str:
    if value is _ABSENT:
        return "absent"
    if isinstance(value, DType):
        return value.label
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value)
