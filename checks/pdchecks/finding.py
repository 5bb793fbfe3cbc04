"""Findings: the record that every renderer prints and every program reads. Schema: `findings.schema.json`."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from pdchecks.evidence import Quote

SCHEMA = "pdctl.findings/1"


class Status(StrEnum):
    """From best to worst. Unknown is not a pass: something could not be seen."""

    PASS = "pass"
    INFO = "info"
    UNKNOWN = "unknown"
    WARN = "warn"
    FAIL = "fail"

    @property
    def rank(self) -> int:
        return tuple(Status).index(self)


class Severity(StrEnum):
    """What the fault costs if it is there; the status says whether it is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Impact(StrEnum):
    """What applying a remedy does to a node that serves."""

    NONE = "none"
    RESTART_ENGINE = "restart-engine"
    LINK_FLAP = "link-flap"
    DRIVER_RELOAD = "driver-reload"
    REBOOT = "reboot"


@dataclass(frozen=True, slots=True)
class Subject:
    """What a finding is about. peer: the other node where two are compared."""

    node: str
    object: str
    peer: str | None = None

    def __str__(self) -> str:
        nodes = f"{self.node} and {self.peer}" if self.peer else self.node
        return f"{nodes}: {self.object}"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do. role: the role of ours that does it, with its tags; commands: by hand, exactly.

    survives_reboot: whether the effect of role and commands is still there after a reboot. until_reboot: other commands,
    whose effect is not.
    """

    text: str
    role: str | None = None
    tags: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    until_reboot: tuple[str, ...] = ()
    survives_reboot: bool = True
    impact: Impact = Impact.NONE


@dataclass(frozen=True, slots=True)
class Waived:
    """Why a finding is known and accepted. expires: ISO date, the last day on which it is."""

    reason: str
    expires: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's one status for one subject. waived: it keeps its status, and counts as none."""

    check: str
    topic: str
    status: Status
    severity: Severity
    subject: Subject
    summary: str
    cause: str
    evidence: tuple[Quote, ...]
    verify: tuple[str, ...]
    remedy: Remedy | None
    sources: tuple[str, ...]
    waived: Waived | None = None

    @property
    def fault(self) -> bool:
        """Whether something is wrong, or may be, and nobody has accepted it."""
        return self.status in (Status.WARN, Status.FAIL) and self.waived is None


class Incomplete(NamedTuple):
    """A node that could not be looked at, or not as a whole: why, and what to do (may be empty)."""

    node: str
    reason: str
    hint: str = ""


class Unrecognised(NamedTuple):
    """What was given and nobody could read. source: a file or a node; text: the command, or the first words.

    line: where in the source it begins, from 1, or 0. lines: how many.
    """

    source: str
    line: int
    text: str
    lines: int


def document(
    findings: Iterable[Finding], incomplete: Iterable[Incomplete] = (), unrecognised: Iterable[Unrecognised] = ()
) -> dict[str, Any]:
    """The findings as a JSON document of schema `pdctl.findings/1`."""
    return {
        "schema": SCHEMA,
        "findings": [_record(finding) for finding in findings],
        "incomplete": [entry._asdict() for entry in incomplete],
        "unrecognised": [entry._asdict() for entry in unrecognised],
    }


def _record(finding: Finding) -> dict[str, Any]:
    subject: dict[str, Any] = {"node": finding.subject.node, "object": finding.subject.object}
    if finding.subject.peer is not None:
        subject["peer"] = finding.subject.peer
    remedy = finding.remedy
    waived = finding.waived
    added = {} if waived is None else {"waived": {"reason": waived.reason, "expires": waived.expires}}
    return {
        "check": finding.check,
        "topic": finding.topic,
        "status": finding.status.value,
        "severity": finding.severity.value,
        "subject": subject,
        "summary": finding.summary,
        "cause": finding.cause,
        "evidence": [{"command": quote.command, "text": quote.text} for quote in finding.evidence],
        "verify": list(finding.verify),
        "remedy": None
        if remedy is None
        else {
            "text": remedy.text,
            "role": remedy.role,
            "tags": list(remedy.tags),
            "commands": list(remedy.commands),
            "until_reboot": list(remedy.until_reboot),
            "survives_reboot": remedy.survives_reboot,
            "impact": remedy.impact.value,
        },
        "sources": list(finding.sources),
        **added,
    }
