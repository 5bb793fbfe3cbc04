"""The plan of `--fix`, and what moved, for people and as JSON."""

from collections.abc import Iterator
from typing import Any

from pdchecks.finding import Finding, Status
from pdchecks.remedies import Moved, Plan
from pdctl.render.block import block


def plan_lines(plan: Plan, width: int) -> Iterator[tuple[str, str]]:
    """(line, style): which roles, on which nodes, for which findings; what no role mends."""
    yield "PLAN", "bold"
    for batch in plan.batches:
        yield f"  {', '.join(batch.nodes)}: roles {', '.join(batch.tags)} (impact: {batch.impact.value})", ""
        for finding in batch.findings:
            yield from block("mends", f"{finding.check}  {finding.subject}: {finding.summary}", width)
    for finding in plan.refused:
        impact = finding.remedy.impact.value if finding.remedy else ""
        yield f"  REFUSED  {finding.check}  {finding.subject}", "yellow"
        yield from block("", f"an engine is active there, and the remedy's impact is {impact}; --while-serving", width)
    if plan.by_hand:
        listed = ", ".join(dict.fromkeys(finding.check for finding in plan.by_hand))
        yield from block("", f"by hand, no role mends it: {listed}", width)
    if not plan.batches:
        yield "  nothing that a role mends", ""


def moved_lines(moved: Moved, width: int) -> Iterator[tuple[str, str]]:
    """(line, style): looked at again."""
    yield "", ""
    yield "AFTER", "bold"
    for label, findings, style in (("MENDED", moved.mended, "green"), ("NEW", moved.new, "bold red")):
        for finding in findings:
            yield f"  {label:<7} {finding.check}  {finding.subject}", style
            if label == "NEW":
                yield from block("", finding.summary, width)
    for finding in moved.left:
        yield f"  LEFT    {finding.check}  {finding.subject}: {finding.summary}", _left(finding)
    yield f"{len(moved.mended)} mended, {len(moved.left)} left, {len(moved.new)} new", ""


def _left(finding: Finding) -> str:
    return "yellow" if finding.status is Status.WARN else "red"


def document(plan: Plan, ran: bool, moved: Moved | None) -> dict[str, Any]:
    """Key `fix` of the findings document."""
    return {
        "runs": [
            {"nodes": list(batch.nodes), "tags": list(batch.tags), "impact": batch.impact.value}
            for batch in plan.batches
        ],
        "ran": ran,
        "by_hand": [_name(finding) for finding in plan.by_hand],
        "refused": [_name(finding) for finding in plan.refused],
        "mended": [_name(finding) for finding in moved.mended] if moved else [],
        "left": [_name(finding) for finding in moved.left] if moved else [],
        "new": [_name(finding) for finding in moved.new] if moved else [],
    }


def _name(finding: Finding) -> dict[str, str]:
    return {"check": finding.check, "node": finding.subject.node, "object": finding.subject.object}
