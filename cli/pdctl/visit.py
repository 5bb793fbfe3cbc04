"""One visit of the doctor: whom it looks at, and how it judges; looking and judging may be repeated."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from pdchecks.check import Check
from pdchecks.evidence import Evidence
from pdchecks.registry import CHECKS
from pdchecks.report import Report
from pdchecks.symptoms import Symptom, explore, match, symptoms
from pdchecks.waivers import Waiver, WaiverError, apply, doubts, read_waivers
from pdctl.diagnosis import examine, look
from pdctl.errors import UsageError
from pdctl.evidence_source import Source, read_sources
from pdctl.inventory import Inventory
from pdctl.policy_source import policy_for
from pdctl.printable import printable

WAIVERS = "waivers.yml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """sources: evidence instead of a live look. hosts: None for this host. policy: a site's file instead of the usual.

    connect_s, deadline_s: of one node, seconds. interval_s: between two readings of counters. sudo: a password typed for it.
    """

    checks: Sequence[Check]
    hosts: Inventory | None = None
    sources: Sequence[str] = ()
    policy: Path | None = None
    waivers: Sequence[Waiver] = ()
    symptoms: Sequence[Symptom] = ()
    connect_s: float
    deadline_s: float
    interval_s: int
    sudo: str | None = field(default=None, repr=False)
    _today: date = field(default_factory=date.today)

    def look(self) -> Source:
        if self.sources:
            return read_sources(list(self.sources))
        return look(
            self.hosts,
            policy_for(self.hosts, self.policy),
            connect_s=self.connect_s,
            deadline_s=self.deadline_s,
            interval_s=self.interval_s,
            sudo=self.sudo,
        )

    def test(self, seen: Source, *, yes: bool, while_serving: bool) -> None:
        """Active tests between the nodes that were seen; what they show is added to the evidence."""
        from pdctl.active.asking import asked_and_run, with_tests

        assert self.hosts is not None
        tests = asked_and_run(
            seen,
            self.hosts,
            policy_for(self.hosts, self.policy),
            {check.id for check in self.checks},
            connect_s=self.connect_s,
            yes=yes,
            while_serving=while_serving,
        )
        seen.evidence = tuple(with_tests(each, tests) for each in seen.evidence)

    def judge(self, seen: Source) -> Report:
        """Findings of what was seen, waivers applied, symptoms explored."""
        policy_of = policy_for(self.hosts, self.policy, seen.policy)
        findings = examine(seen, policy_of, self.checks)
        marked, uses = apply(self.waivers, findings, self._today)
        whole = bool(seen.evidence) and all(map(_collected, seen.evidence))
        explored = tuple(
            explore(symptom, marked, self.checks, nodes=len(seen.evidence), whole=whole) for symptom in self.symptoms
        )
        return Report(marked, tuple(seen.incomplete), uses, explored, tuple(seen.unrecognised))


def _collected(evidence: Evidence) -> bool:
    """Whether it is a whole run of the collector."""
    return any(block.command.startswith("pdctl-collect end") for block in evidence.blocks)


def waivers_for(inventory: Inventory | None, given: Path | None) -> tuple[Waiver, ...]:
    """Those of the file given, else of `waivers.yml` beside the inventory; none without either.

    A waiver that can never waive anything is told on stderr. Raises UsageError.
    """
    if given is None and inventory is not None:
        given = beside if (beside := inventory.folder / WAIVERS).is_file() else None
    if given is None:
        return ()
    try:
        waivers = read_waivers(given)
        for doubt in doubts(waivers, [check.id for check in CHECKS]):
            print(printable(f"warning: {given}: {doubt}"), file=sys.stderr)
    except WaiverError as error:
        raise UsageError("cannot use the waivers", detail=str(error), hint="docs/doctor.md shows the format") from error
    return waivers


def symptoms_named(text: str | None) -> tuple[Symptom, ...]:
    """The symptoms that the words mean. Raises UsageError where they are near none."""
    if text is None:
        return ()
    found = match(text)
    if not found:
        known = "\n".join(f"{symptom.id:<20} {symptom.title}" for symptom in symptoms())
        raise UsageError(f"no symptom is like `{text}`", detail=known, hint="give one of these, by ID or in your words")
    return found
