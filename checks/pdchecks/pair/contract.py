"""The KV contract's verdict on two sides of which some fields are not known.

`pdwire.verdict` judges the fields that both sides know; the others become lines of their own. A value that one side
does not know is lent from the other, so that there are two records to compare; `fields` keeps it from being judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pdchecks.pair.command import DescriptionError
from pdchecks.pair.fields import Notice, PairField, PairOutcome, field, from_wire, unknown_field
from pdchecks.pair.side import Resolved
from pdchecks.unknown import Unknown
from pdwire import FIELDS, UNPACKED, Attention, ByteOrder, CompatRecord, DType, Layout, LocalProtocolError, verdict

MODEL_FIELDS = ("model_digest", "tokenizer_digest", "rope", "layers", "kv_heads", "head_dim", "kv_scales")
"""True of the model whoever moves its KV."""

NOT_DESCRIBED = frozenset({"protocol", "tp_rank", "transports"})
"""Settled by pdctl itself when it deploys the two."""

NOT_DECISIVE = frozenset({"engine_version", "attention_backend", "capacity_tokens"})
"""Whatever these are, the contract does not refuse them; not knowing them decides nothing."""

_STAND_IN: Mapping[str, object] = {
    "attention": Attention.DENSE,
    "model_digest": "-",
    "tokenizer_digest": "-",
    "rope": {},
    "layers": 1,
    "kv_heads": 1,
    "head_dim": 1,
    "dtype": DType.BFLOAT16,
    "kv_scales": (),
    "tp_size": 1,
    "block_tokens": 1,
    "layout": Layout.TOKEN_MAJOR,
    "byte_order": ByteOrder.LITTLE,
    "isa_layout": UNPACKED,
    "engine": "-",
    "engine_version": "-",
    "attention_backend": "-",
    "capacity_tokens": 1,
}
"""For a field that neither side knows."""


def contract_fields(
    prefill: Resolved, decode: Resolved, fields: Sequence[str], notices: Mapping[str, Notice]
) -> list[PairField]:
    """fields: of the record, to be judged. notices: what the engines would do about a fatal one; REFUSED if not named.

    In the order of the record's rules. Raises DescriptionError for a value that no record can have.
    """
    known = {name for name in fields if not _unknown(prefill.fields[name]) and not _unknown(decode.fields[name])}
    if _same_checkpoint(prefill, decode):
        known -= {"kv_scales"}
    if any(fault.field.endswith(".tp_size") for side in (prefill, decode) for fault in side.faults):
        known -= {"tp_size"}
    ours, theirs = _record(prefill, decode), _record(decode, prefill)
    judged: dict[str, list[PairField]] = {}
    for one in verdict(ours, theirs, can=prefill.can & decode.can, fields=known).fields:
        name = one.field.split(".")[0]
        judged.setdefault(name, []).append(from_wire(one, notices.get(name, Notice.REFUSED)))
    lines: list[PairField] = []
    for name in FIELDS:
        if name in judged:
            lines += judged[name]
        elif name in fields:
            lines += _without_verdict(name, prefill, decode, notices.get(name) is Notice.SILENT)
    return lines


def _without_verdict(name: str, prefill: Resolved, decode: Resolved, silent: bool) -> Iterator[PairField]:
    if name == "kv_scales" and _same_checkpoint(prefill, decode):
        yield field(name, "of the checkpoint", "of the checkpoint", PairOutcome.EQUAL)
    elif name not in NOT_DECISIVE and name != "tp_size":
        line = unknown_field(name, prefill.fields[name], decode.fields[name])
        yield replace(line, reason=f"{line.reason}; the engines do not compare it") if silent else line


def _same_checkpoint(prefill: Resolved, decode: Resolved) -> bool:
    """Whether both caches are quantised with scales that lie in weights known to be the same."""
    scales = all(_unknown(side.fields["kv_scales"]) for side in (prefill, decode))
    weights = prefill.fields["model_digest"]
    return scales and not _unknown(weights) and weights == decode.fields["model_digest"]


def _unknown(value: object) -> bool:
    return isinstance(value, Unknown)


def _record(side: Resolved, peer: Resolved) -> CompatRecord:
    values: dict[str, object] = {}
    for name, stand_in in _STAND_IN.items():
        mine, lent = side.fields[name], peer.fields[name]
        values[name] = mine if not _unknown(mine) else lent if not _unknown(lent) else stand_in
    heads, tp_size = values["kv_heads"], values["tp_size"]
    if isinstance(heads, int) and isinstance(tp_size, int) and heads % tp_size and tp_size % heads:
        values["tp_size"] = 1  # cannot be: a fault of that side says so
    try:
        return CompatRecord(name=side.side.role.value, transports=("-",), **values)  # type: ignore[arg-type]
    except LocalProtocolError as error:
        raise DescriptionError(f"{side.side.role}: {error}") from None
