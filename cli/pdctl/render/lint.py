"""Advice of the linter, for people and as JSON."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pdchecks.lint.rule import Advice

if TYPE_CHECKING:
    from pdctl.text_source import Texts

_WIDTH = 110


def table(found: Sequence[Advice], files: int) -> str:
    """`file:line:column` first, so that editors and terminals lead there."""
    lines: list[str] = []
    for advice in found:
        rule, hit = advice.rule, advice.hit
        lines.append(f"{advice.file}:{hit.line}:{hit.column}: {rule.status.value} {rule.id} {rule.title}")
        lines += _wrapped("seen", hit.text) + _wrapped("why", rule.why) + _wrapped("right", advice.right)
        lines += [f"    source  {source}" for source in rule.sources] + [""]
    counts = Counter(advice.rule.status for advice in found)
    said = ", ".join(f"{count} {status.value}" for status, count in counts.items())
    lines.append(f"{said or 'nothing flagged'} in {files} file{'' if files == 1 else 's'}")
    return "\n".join(lines)


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"    {label:<7} ",
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )


def document(found: Sequence[Advice], read: "Texts") -> dict[str, Any]:
    """Schema `pdctl.lint/1`: within version 1 keys may be added; none is removed or changes its meaning."""
    return {
        "schema": "pdctl.lint/1",
        "advice": [
            {
                "rule": advice.rule.id,
                "title": advice.rule.title,
                "status": advice.rule.status.value,
                "file": advice.file,
                "line": advice.hit.line,
                "column": advice.hit.column,
                "text": advice.hit.text,
                "why": advice.rule.why,
                "right": advice.right,
                "sources": list(advice.rule.sources),
            }
            for advice in found
        ],
        "files": len(read.texts),
        "skipped": [{"file": skipped.name, "reason": skipped.why} for skipped in read.skipped],
    }
