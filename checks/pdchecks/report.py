"""What the doctor answers: findings, their order by cause, and what stands beside them. Every format prints this."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pdchecks.finding import Finding, Incomplete, Unrecognised, document
from pdchecks.ranking import Group, rank
from pdchecks.symptoms import Explored, places
from pdchecks.waivers import Use


@dataclass(frozen=True)
class Report:
    """explored: the symptoms that somebody named, and what the findings say of their causes.

    unrecognised: what was given and no reader knows.
    """

    findings: tuple[Finding, ...]
    incomplete: tuple[Incomplete, ...] = ()
    waivers: tuple[Use, ...] = ()
    explored: tuple[Explored, ...] = ()
    unrecognised: tuple[Unrecognised, ...] = ()

    @cached_property
    def groups(self) -> list[Group]:
        """Root causes, the most likely first, with what they explain."""
        return rank(self.findings, places(self.explored))

    @property
    def counted(self) -> tuple[Finding, ...]:
        """Findings that nobody waived."""
        return tuple(finding for finding in self.findings if finding.waived is None)


def report_document(report: Report) -> dict[str, Any]:
    """The report as a JSON document of schema `pdctl.findings/1`. `root_causes` names findings by their position."""
    place = {id(finding): index for index, finding in enumerate(report.findings)}

    def tree(group: Group) -> dict[str, Any]:
        explains = [tree(below) | {"why": below.why} for below in group.explained]
        return {"finding": place[id(group.finding)], "explains": explains}

    made = document(report.findings, report.incomplete, report.unrecognised)
    made["root_causes"] = [tree(group) for group in report.groups if group.finding.fault]
    if report.waivers:
        made["waivers"] = [_waiver(use) for use in report.waivers]
    if report.explored:
        made["symptoms"] = [_explored(explored, place) for explored in report.explored]
    return made


def _waiver(use: Use) -> dict[str, Any]:
    waiver = use.waiver
    return {
        "check": waiver.check,
        "subject": waiver.subject,
        "reason": waiver.reason,
        "expires": waiver.expires.isoformat(),
        "expired": use.expired,
        "matched": use.matched,
    }


def _explored(explored: Explored, place: dict[int, int]) -> dict[str, Any]:
    return {
        "id": explored.symptom.id,
        "title": explored.symptom.title,
        "causes": [
            {
                "cause": answer.cause.text,
                "checks": list(answer.cause.checks),
                "answer": answer.answer.value,
                "findings": _positions(answer.findings, place),
                "missing": list(answer.missing),
            }
            for answer in explored.answers
        ],
    }


def _positions(findings: Sequence[Finding], place: dict[int, int]) -> list[int]:
    return [place[id(finding)] for finding in findings]
