"""A symptom for people: its causes, likeliest first, and what is known of each."""

from collections.abc import Iterator

from pdchecks.symptoms import Answer, Explored
from pdctl.render.block import block

_SAID = {
    Answer.FOUND: ("FOUND", "bold red"),
    Answer.CLEAR: ("clear", ""),
    Answer.UNKNOWN: ("NOT JUDGED", "magenta"),
    Answer.ABSENT: ("does not apply", ""),
}
_MOST_REASONS = 4


def render_symptom(explored: Explored, width: int) -> Iterator[tuple[str, str]]:
    """(line, style). Findings that show a cause are named here and told below, in this order."""
    symptom = explored.symptom
    yield f"SYMPTOM  {symptom.title} ({symptom.id})", "bold"
    yield from block("mind", symptom.myth, width)
    for number, answer in enumerate(explored.answers, 1):
        said, style = _SAID[answer.answer]
        yield f"  {number:>2}. {said}: {answer.cause.text}", style
        for finding in answer.findings:
            yield from block("", f"{finding.check}  {finding.subject}: {finding.summary}", width)
        for reason in answer.missing[:_MOST_REASONS]:
            yield from block("missing", reason, width)
        if len(answer.missing) > _MOST_REASONS:
            yield from block("", f"and {len(answer.missing) - _MOST_REASONS} more (-o json holds them)", width)
    yield "", ""
