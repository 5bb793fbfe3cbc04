"""Can this prefill engine feed that decode engine? One pure function over two records, one rule for each field.

Every answer carries both values, the side to change and the change. The same function serves the handshake and the
verdict before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from pdwire.dtypes import DType
from pdwire.outcome import Conversion, FieldVerdict, Outcome, Side, Verdict
from pdwire.record import CompatRecord
from pdwire.rules import RULES, Rule

__all__ = ["FIELDS", "Conversion", "FieldVerdict", "Outcome", "Side", "Verdict", "verdict"]

FIELDS: tuple[str, ...] = tuple(rule.field for rule in RULES)
"""The compared fields of CompatRecord: all but `name`."""


def verdict(
    prefill: CompatRecord,
    decode: CompatRecord,
    *,
    can: Set[Conversion] = frozenset(),
    fields: Set[str] | None = None,
) -> Verdict:
    """Compares field by field. can: what these two engines can convert, and so need not refuse.

    fields: judge only these, because the caller does not know the others on both sides; they are then left out of the
    answer, and their values in the two records are not looked at.
    """
    return Verdict(
        prefill.name,
        decode.name,
        tuple(
            result
            for rule in RULES
            if fields is None or rule.field in fields
            for result in _apply(rule, prefill, decode, can)
        ),
    )


def _apply(rule: Rule, prefill: CompatRecord, decode: CompatRecord, can: Set[Conversion]) -> Iterator[FieldVerdict]:
    for field, ours, theirs in _values(rule.field, prefill, decode):
        ruling = rule.judge(prefill, decode, can) if rule.always or ours != theirs else None
        if ruling is None:
            yield FieldVerdict(field, Outcome.EQUAL, _show(ours), _show(ours))
        else:
            values = (_show(ours), _show(theirs))
            yield FieldVerdict(field, ruling.outcome, *values, ruling.reason, ruling.exact, ruling.side, ruling.fix)


def _values(field: str, prefill: CompatRecord, decode: CompatRecord) -> Iterator[tuple[str, object, object]]:
    """RoPE key by key, and scales by the first that differs: a verdict names what differs and not two containers."""
    ours, theirs = getattr(prefill, field), getattr(decode, field)
    if field == "rope":
        for key in sorted(ours.keys() | theirs.keys()):
            yield f"rope.{key}", ours.get(key, _ABSENT), theirs.get(key, _ABSENT)
    elif field == "kv_scales":
        yield _scales(ours, theirs)
    else:
        yield field, ours, theirs


def _scales(ours: tuple[float, ...], theirs: tuple[float, ...]) -> tuple[str, str, str]:
    if len(ours) != len(theirs):
        return "kv_scales", _count(ours), _count(theirs)
    differing = [index for index, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]]
    if not differing:
        return "kv_scales", _count(ours), _count(theirs)
    first = differing[0]
    field = f"kv_scales.layer{first // 2}.{'kv'[first % 2]}"
    return field, repr(ours[first]), f"{theirs[first]!r} ({len(differing)} of {len(ours)} scales differ)"


def _count(scales: tuple[float, ...]) -> str:
    return f"{len(scales)} scales" if scales else "none"


_ABSENT = object()


def _show(value: object) -> str:
    if value is _ABSENT:
        return "absent"
    if isinstance(value, DType):
        return value.label
    if isinstance(value, tuple):
        return ", ".join(map(_show, value))
    return str(value)
