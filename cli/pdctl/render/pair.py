"""A pair verdict for people: the worst first, each with both values, why, and what to type."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator

from pdchecks.pair.fields import Notice, PairField, PairOutcome, show
from pdchecks.pair.side import Resolved
from pdchecks.pair.verdict import PairVerdict

_WIDTH = 116
_INDENT = " " * 13
_NOTICE = {
    Notice.REFUSED: "would be refused by the engines themselves",
    Notice.FAILS: "the engines would start, and fail or hang on a request",
    Notice.SILENT: "the engines would accept it, and the answers would be wrong or the transfer useless",
}


def table(verdict: PairVerdict, *, verbose: bool) -> str:
    lines = [
        _side("prefill", verdict.prefill),
        _side("decode", verdict.decode),
        f"KV is moved by {verdict.moved_by}",
        "",
    ]
    worst_first = sorted(verdict.fields, key=lambda one: -tuple(PairOutcome).index(one.outcome))
    for one in worst_first:
        if verbose or one.outcome is not PairOutcome.EQUAL:
            lines += _field(one, verbose)
    lines += ["", *_summary(verdict)] if lines[-1] else _summary(verdict)
    return "\n".join(lines)


def _side(role: str, resolved: Resolved) -> str:
    side = resolved.side
    version = "version unknown" if show(side.version) == "unknown" else show(side.version)
    gpu = "an unknown GPU" if show(side.gpu) == "unknown" else show(side.gpu)
    model = "model not named" if show(side.model) == "unknown" else show(side.model)
    return f"{role:<8} {side.engine} {version} on {gpu}, {model} ({resolved.kv.attention} attention)"


def _field(one: PairField, verbose: bool) -> Iterator[str]:
    values = f"prefill {one.prefill or '-'}, decode {one.decode or '-'}"
    loss = " (not exact)" if one.outcome is PairOutcome.CONVERTIBLE and not one.exact else ""
    yield f"{one.outcome.value.upper():<11}  {one.field}: {values}{loss}"
    if one.reason:
        yield from _block("how" if one.outcome is PairOutcome.CONVERTIBLE else "why", one.reason)
    if one.fix:
        yield from _block("fix", f"{one.side}: {one.fix}")
    if one.notice is not Notice.NONE:
        yield from _block("note", _NOTICE[one.notice])
    if one.sources and (verbose or one.outcome in (PairOutcome.FATAL, PairOutcome.WARN)):
        for source in one.sources:
            yield f"{_INDENT}see   {source}"


def _block(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"{_INDENT}{label:<5} ",
        subsequent_indent=f"{_INDENT}{'':6}",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _summary(verdict: PairVerdict) -> list[str]:
    counts = Counter(one.outcome for one in verdict.fields)
    said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in reversed(PairOutcome) if counts[outcome])
    sentence = {
        PairOutcome.EQUAL: "they fit, to the last bit",
        PairOutcome.CONVERTIBLE: "they fit",
        PairOutcome.WARN: "they fit by the rules, and have been reported to fail",
        PairOutcome.UNKNOWN: "nothing speaks against them, but what is unknown above decides it",
        PairOutcome.FATAL: "they do not fit",
    }[verdict.outcome]
    lines = [f"verdict: {verdict.outcome}: {sentence} ({said})"]
    if verdict.engines in (Notice.REFUSED, Notice.FAILS):
        how = "refuse each other" if verdict.engines is Notice.REFUSED else "start, and fail or hang on a request"
        lines.append(f"  without this verdict the engines would {how}")
    if verdict.silent:
        names = ", ".join(one.field for one in verdict.silent)
        lines.append(f"  the engines do not notice {names}: HTTP 200, and wrong or useless answers")
    return lines
