"""From findings to the doctor's report: waivers applied, symptoms explored."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from pdchecks.check import Check
from pdchecks.evidence import Evidence
from pdchecks.finding import Finding, Incomplete
from pdchecks.report import Report
from pdchecks.symptoms import Symptom, explore, match, symptoms
from pdchecks.waivers import Waiver, WaiverError, apply, read_waivers
from pdctl.errors import UsageError
from pdctl.inventory import Inventory

WAIVERS = "waivers.yml"


def report_on(
    findings: Sequence[Finding],
    incomplete: Sequence[Incomplete],
    *,
    evidence: Sequence[Evidence],
    checks: Sequence[Check],
    waivers: Sequence[Waiver] = (),
    named: Sequence[Symptom] = (),
) -> Report:
    marked, uses = apply(waivers, findings, date.today())
    whole = bool(evidence) and all(_collected(one) for one in evidence)
    explored = tuple(explore(one, marked, checks, nodes=len(evidence), whole=whole) for one in named)
    return Report(marked, tuple(incomplete), uses, explored)


def _collected(evidence: Evidence) -> bool:
    """Whether it is a whole run of the collector."""
    return any(block.command.startswith("pdctl-collect end") for block in evidence.blocks)


def waivers_for(inventory: Inventory | None, given: Path | None) -> tuple[Waiver, ...]:
    """Those of the file given, else of `waivers.yml` beside the inventory; none without either. Raises UsageError."""
    if given is None and inventory is not None:
        folder = inventory.source if inventory.source.is_dir() else inventory.source.parent
        given = beside if (beside := folder / WAIVERS).is_file() else None
    if given is None:
        return ()
    try:
        return read_waivers(given)
    except WaiverError as error:
        raise UsageError("cannot use the waivers", detail=str(error), hint="docs/doctor.md shows the format") from error


def symptoms_named(text: str | None) -> tuple[Symptom, ...]:
    """The symptoms that the words mean. Raises UsageError where they are near none."""
    if text is None:
        return ()
    found = match(text)
    if not found:
        known = "\n".join(f"{symptom.id:<20} {symptom.title}" for symptom in symptoms())
        raise UsageError(f"no symptom is like `{text}`", detail=known, hint="give one of these, by ID or in your words")
    return found
