"""What changed, for people and as JSON."""

from collections.abc import Iterator
from typing import Any

from pdchecks.changes import Change, Comparison, Seen
from pdchecks.finding import document as findings_document
from pdctl.render.block import block


def lines(made: Comparison, width: int) -> Iterator[tuple[str, str]]:
    """(line, style): new faults, then the changes, the likeliest cause first."""
    for finding in made.appeared:
        yield f"NEW     {finding.status.value.upper()} {finding.check}  {finding.subject}", "bold red"
        yield from block("", finding.summary, width)
    for finding in made.gone:
        yield f"GONE    {finding.check}  {finding.subject}", ""
    for finding in made.unjudged:
        yield f"UNSEEN  {finding.check}  {finding.subject}", ""
        yield from block("", "nothing of the second time shows whether it is gone", width)
    if made.appeared or made.gone or made.unjudged:
        yield "", ""
    for change in made.changes:
        yield f"CHANGED {change.kind}  {change.node}: {change.object}", "yellow" if change.behind else ""
        yield from block("", f"{_value(change.before)} -> {_value(change.after)}", width)
        if change.behind:
            yield from block("behind", ", ".join(dict.fromkeys(finding.check for finding in change.behind)), width)
        for label, seen in (("before", change.before), ("now", change.after)):
            if seen is not None and change.behind:
                yield from block(label, f"{seen.quote.text.splitlines()[0].strip()}  [{seen.quote.command}]", width)
    kinds = dict.fromkeys(kind for _, kind in made.unseen)
    if kinds:
        yield "", ""
        yield f"not compared, seen at one time only: {', '.join(kinds)}", ""
    yield _summary(made), ""


def _summary(made: Comparison) -> str:
    parts = [_count(len(made.changes), "change") if made.changes else "nothing changed"]
    parts.append(_count(len(made.appeared), "new fault") if made.appeared else "no new fault")
    if likely := sum(bool(change.behind) for change in made.changes):
        parts.append(f"{_count(likely, 'change')} may be behind what is new")
    if made.gone:
        parts.append(f"{_count(len(made.gone), 'fault')} gone")
    if made.unjudged:
        parts.append(f"{_count(len(made.unjudged), 'fault')} not looked for")
    return ", ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _value(seen: Seen | None) -> str:
    return "(absent)" if seen is None else seen.value or "(empty)"


def document(made: Comparison) -> dict[str, Any]:
    """Schema `pdctl.changes/1`: within version 1 keys may be added; none is removed or changes its meaning."""
    return {
        "schema": "pdctl.changes/1",
        "changes": [_change(change) for change in made.changes],
        "appeared": findings_document(made.appeared)["findings"],
        "gone": findings_document(made.gone)["findings"],
        "unjudged": findings_document(made.unjudged)["findings"],
        "not_compared": [{"node": node, "kind": kind} for node, kind in made.unseen],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "node": change.node,
        "object": change.object,
        "before": _seen(change.before),
        "after": _seen(change.after),
        "behind": list(dict.fromkeys(finding.check for finding in change.behind)),
    }


def _seen(seen: Seen | None) -> dict[str, str] | None:
    if seen is None:
        return None
    return {"value": seen.value, "command": seen.quote.command, "text": seen.quote.text}
