"""A report as a Nagios plugin answers: one line with performance data, and the plugin convention's exit code."""

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum

from pdchecks.finding import Finding, Status
from pdchecks.report import Report

# Older NRPE daemons hand on one packet of 1,024 bytes; the counts behind the bar must fit as well.
_MOST = 700


class State(IntEnum):
    """Exit codes of plugins; monitoring-plugins.org, development guidelines, 2.1."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


def state(report: Report, fail_on: Status) -> State:
    """CRITICAL from `fail_on` on, WARNING for a warn below it, UNKNOWN where something could not be seen."""
    counted = report.counted
    if any(finding.status.rank >= fail_on.rank for finding in counted):
        return State.CRITICAL
    if any(finding.status is Status.WARN for finding in counted):
        return State.WARNING
    unseen = report.incomplete or not report.findings or any(f.status is Status.UNKNOWN for f in counted)
    return State.UNKNOWN if unseen else State.OK


def render(report: Report, fail_on: Status) -> str:
    counts = Counter(finding.status for finding in report.counted)
    waived = len(report.findings) - len(report.counted)
    parts = [f"{counts[status]} {status.value}" for status in reversed(Status) if counts[status]]
    parts += [f"{waived} waived"] if waived else []
    parts += [f"{len(report.incomplete)} incomplete"] if report.incomplete else []
    text = f"PDCTL {state(report, fail_on).name} - {', '.join(parts) or 'nothing to judge'}"
    for said in _worst(report):
        if len(text) + len(said) > _MOST:
            break
        text += f"; {said}"
    numbers = [f"{status.value}={counts[status]};;;0" for status in reversed(Status)]
    numbers += [f"waived={waived};;;0", f"incomplete={len(report.incomplete)};;;0"]
    return f"{_one_line(text)} | {' '.join(numbers)}"


def _worst(report: Report) -> Sequence[str]:
    roots = [group.finding for group in report.groups if group.finding.fault]
    return [f"{entry.node}: {entry.reason}" for entry in report.incomplete] + [_said(finding) for finding in roots]


def _said(finding: Finding) -> str:
    return f"{finding.check} {finding.subject}: {finding.summary}"


def _one_line(text: str) -> str:
    """The bar begins the performance data, and a line's end the part that no one sees."""
    return " ".join(text.replace("|", "/").split())
