"""Waivers: findings that somebody knows, accepts for a reason, and only for a time.

waivers:
  - check: PD-FW-001
    subject: "node-7: *"
    reason: the maintenance window is on the 12th
    expires: 2027-01-15
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from pdchecks import yaml_text
from pdchecks.finding import Finding, Status, Waived
from pdchecks.given_file import read_given

_MAX_BYTES = 1 << 20
_KEYS = {"check", "subject", "reason", "expires"}


class WaiverError(ValueError):
    """A waiver file is unreadable, or an entry lacks what it must say. The message names file and entry."""


@dataclass(frozen=True, slots=True)
class Waiver:
    """check and subject: patterns as a shell's (`*`, `?`), of a check's ID and of `NODE: OBJECT`.

    expires: the last day on which it holds.
    """

    check: str
    subject: str
    reason: str
    expires: date

    def fits(self, finding: Finding) -> bool:
        return fnmatchcase(finding.check, self.check) and fnmatchcase(str(finding.subject), self.subject)


@dataclass(frozen=True, slots=True)
class Use:
    """What became of a waiver. matched: findings that it fits, whether or not it still holds."""

    waiver: Waiver
    expired: bool
    matched: int


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """Every entry of the file. Raises WaiverError."""
    try:
        data = yaml_text.load(read_given(path, _MAX_BYTES).decode("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise WaiverError(f"{path}: {error}") from error
    entries = data.get("waivers") if isinstance(data, Mapping) else None
    if not isinstance(entries, list):
        raise WaiverError(f"{path}: a waiver file is `waivers:` and a list below it")
    return tuple(_waiver(entry, f"{path}: waiver {number}") for number, entry in enumerate(entries, 1))


def _waiver(entry: Any, place: str) -> Waiver:
    if not isinstance(entry, Mapping):
        raise WaiverError(f"{place} is no mapping of {', '.join(sorted(_KEYS))}")
    if unknown := {str(key) for key in entry} - _KEYS:
        raise WaiverError(f"{place} has keys that no waiver has: {', '.join(sorted(unknown))}")
    texts = {key: str(entry.get(key) or "").strip() for key in ("check", "reason")}
    for key, text in texts.items():
        if not text:
            raise WaiverError(f"{place} gives no `{key}`")
    return Waiver(texts["check"].upper(), str(entry.get("subject") or "*"), texts["reason"], _day(entry, place))


def _day(entry: Mapping[Any, Any], place: str) -> date:
    given = entry.get("expires")
    if given is None:
        raise WaiverError(f"{place} gives no `expires`: a waiver without an end is a fault that nobody looks at again")
    try:
        return date.fromisoformat(str(given)[:10])
    except ValueError as error:
        raise WaiverError(f"{place}: `expires: {given}` is no date as 2027-01-31") from error


def doubts(waivers: Sequence[Waiver], ids: Sequence[str]) -> Iterator[str]:
    """A line for each waiver that no check of `ids` can ever need, and for each that takes a whole node out.

    Raises WaiverError for one that accepts everything everywhere: the doctor could never fail again.
    """
    for waiver in waivers:
        fitting = [each for each in ids if fnmatchcase(each, waiver.check)]
        if not fitting:
            near = get_close_matches(waiver.check, ids, n=1, cutoff=0.6)
            yield f"no check is called `{waiver.check}`" + (f"; did you mean `{near[0]}`?" if near else "")
        elif len(fitting) == len(ids):
            if not waiver.subject.strip("*?: "):
                raise WaiverError(
                    f"`check: {waiver.check}` accepts every finding of every node; name checks or a subject"
                )
            yield f"`check: {waiver.check}` accepts every finding of `{waiver.subject}`"


def apply(
    waivers: Sequence[Waiver], findings: Iterable[Finding], today: date
) -> tuple[tuple[Finding, ...], tuple[Use, ...]]:
    """The findings, the accepted ones marked, and what became of each waiver. A pass needs no waiver and takes none."""
    matched = [0] * len(waivers)
    marked: list[Finding] = []
    for finding in findings:
        fitting = [n for n, waiver in enumerate(waivers) if finding.status is not Status.PASS and waiver.fits(finding)]
        for number in fitting:
            matched[number] += 1
        holding = next((waivers[number] for number in fitting if waivers[number].expires >= today), None)
        if holding is None:
            marked.append(finding)
        else:
            marked.append(replace(finding, waived=Waived(holding.reason, holding.expires.isoformat())))
    uses = (Use(waiver, waiver.expires < today, count) for waiver, count in zip(waivers, matched, strict=True))
    return tuple(marked), tuple(uses)
