"""A pair verdict as a JSON document. Its schema is `pair.schema.json` beside this file."""

from __future__ import annotations

from typing import Any

from pdchecks.pair.fields import PairField, show
from pdchecks.pair.side import Resolved
from pdchecks.pair.verdict import PairVerdict

SCHEMA = "pdctl.pair/1"


def document(verdict: PairVerdict) -> dict[str, Any]:
    """Additions keep the version; readers ignore keys that they do not know."""
    return {
        "schema": SCHEMA,
        "verdict": verdict.outcome.value,
        "moved_by": verdict.moved_by,
        "engines_would": verdict.engines.value or None,
        "prefill": _side(verdict.prefill),
        "decode": _side(verdict.decode),
        "fields": [_field(one) for one in verdict.fields],
    }


def _side(resolved: Resolved) -> dict[str, Any]:
    side = resolved.side
    return {
        "engine": side.engine,
        "version": show(side.version),
        "gpu": show(side.gpu),
        "model": show(side.model),
        "connector": resolved.connector,
        "attention": resolved.kv.attention.value,
    }


def _field(one: PairField) -> dict[str, Any]:
    return {
        "field": one.field,
        "outcome": one.outcome.value,
        "prefill": one.prefill,
        "decode": one.decode,
        "reason": one.reason,
        "exact": one.exact,
        "side": one.side.value if one.fix else None,
        "fix": one.fix or None,
        "engines_would": one.notice.value or None,
        "sources": list(one.sources),
    }
