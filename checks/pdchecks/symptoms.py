"""Symptoms: what a person on call sees, and the causes that it truly has, as data (`data/symptoms.yml`).

`match` finds the symptom in free text, `explore` says of each of its causes what the findings know.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from math import log
from typing import Any

from pdchecks.check import Check, FleetCheck
from pdchecks.finding import Finding, Status


@dataclass(frozen=True, slots=True)
class Cause:
    """checks: IDs of those that see it. elsewhere: the command that does, where it is none of the doctor's."""

    text: str
    checks: tuple[str, ...]
    elsewhere: str = ""


@dataclass(frozen=True, slots=True)
class Symptom:
    """phrases: how people say it. myth: what is often believed of it, and why that is wrong. causes: likeliest first."""

    id: str
    title: str
    phrases: tuple[str, ...]
    myth: str
    causes: tuple[Cause, ...]


class Answer(StrEnum):
    """What the findings say of one cause."""

    FOUND = "found"
    CLEAR = "clear"
    UNKNOWN = "unknown"
    ABSENT = "does-not-apply"


@dataclass(frozen=True, slots=True)
class CauseAnswer:
    """findings: those that show it. missing: what would have to be seen to judge it."""

    cause: Cause
    answer: Answer
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explored:
    symptom: Symptom
    answers: tuple[CauseAnswer, ...]


@cache
def symptoms() -> tuple[Symptom, ...]:
    """All of them, in the order of the file."""
    import yaml

    data = yaml.safe_load((files("pdchecks") / "data" / "symptoms.yml").read_text(encoding="utf-8"))
    return tuple(_symptom(entry) for entry in data["symptoms"])


def _symptom(entry: dict[str, Any]) -> Symptom:
    causes = tuple(Cause(c["cause"], tuple(c.get("checks", ())), c.get("elsewhere", "")) for c in entry["causes"])
    return Symptom(entry["id"], entry["title"], tuple(entry["phrases"]), entry["myth"], causes)


_WORD = re.compile(r"[a-z0-9]+")
_IDLE = {"a", "an", "and", "at", "by", "every", "for", "goes", "has", "have", "i", "in", "is", "it", "its", "no", "of"}
_IDLE |= {"on", "or", "our", "same", "so", "the", "their", "to", "too", "we"}
_ENDINGS = ("ing", "ed", "es", "s", "y")
# Below this share of the words' weight a text is about something else; above this share of the best, it is as near.
_FLOOR, _AS_NEAR = 0.4, 0.9


def match(text: str) -> tuple[Symptom, ...]:
    """The symptoms that the text is nearest to: usually one, several where they are equally near, none where it fits none.

    An ID matches exactly that symptom.
    """
    wanted = set(_stems(text))
    exact = tuple(symptom for symptom in symptoms() if symptom.id == text.strip().lower())
    if exact or not wanted:
        return exact
    scores = {
        symptom.id: max(_likeness(wanted, set(_stems(phrase))) for phrase in _spoken(symptom)) for symptom in symptoms()
    }
    best = max(scores.values())
    return tuple(symptom for symptom in symptoms() if scores[symptom.id] >= max(_FLOOR, best * _AS_NEAR))


def _spoken(symptom: Symptom) -> tuple[str, ...]:
    return (symptom.title, symptom.id.replace("-", " "), *symptom.phrases)


def _likeness(one: set[str], other: set[str]) -> float:
    """Share of the weight of all their words that they have in common: rare words weigh more. 0 to 1."""
    weight = _weights()
    unheard = max(weight.values())
    shared = sum(weight.get(word, unheard) for word in one & other)
    smaller = min(sum(weight.get(word, unheard) for word in words) for words in (one, other))
    whole = sum(weight.get(word, unheard) for word in one | other)
    return (shared / smaller + shared / whole) / 2 if smaller else 0.0


@cache
def _weights() -> dict[str, float]:
    count = Counter(word for symptom in symptoms() for word in {w for p in _spoken(symptom) for w in _stems(p)})
    return {word: log(1 + len(symptoms()) / number) for word, number in count.items()}


def _stems(text: str) -> Iterator[str]:
    for word in _WORD.findall(text.lower()):
        if word not in _IDLE:
            yield next((word[: -len(end)] for end in _ENDINGS if word.endswith(end) and len(word) > len(end) + 2), word)


def explore(
    symptom: Symptom, findings: Sequence[Finding], checks: Sequence[Check], *, nodes: int, whole: bool
) -> Explored:
    """What the findings say of each cause.

    checks: those that were asked. whole: all evidence comes from whole runs of the collector, so that a check that said
    nothing had nothing to say of these nodes.
    """
    by_check: dict[str, list[Finding]] = {}
    for finding in findings:
        by_check.setdefault(finding.check, []).append(finding)
    asked = {check.id: check for check in checks}
    return Explored(symptom, tuple(_answer(cause, by_check, asked, nodes, whole) for cause in symptom.causes))


def _answer(
    cause: Cause, by_check: dict[str, list[Finding]], asked: dict[str, Check], nodes: int, whole: bool
) -> CauseAnswer:
    said = [finding for check in cause.checks for finding in by_check.get(check, ())]
    faults = tuple(finding for finding in said if finding.fault)
    if faults:
        return CauseAnswer(cause, Answer.FOUND, faults)
    missing = [text for check in cause.checks for text in _missing(check, by_check.get(check, []), asked, nodes, whole)]
    if cause.elsewhere:
        missing.append(f"`{cause.elsewhere}` shows it")
    if missing:
        return CauseAnswer(cause, Answer.UNKNOWN, missing=tuple(dict.fromkeys(missing)))
    return CauseAnswer(cause, Answer.CLEAR if said else Answer.ABSENT)


def _missing(check_id: str, said: list[Finding], asked: dict[str, Check], nodes: int, whole: bool) -> Iterator[str]:
    """What keeps a check from judging; nothing where it judged, or where there is nothing for it to judge."""
    check = asked.get(check_id)
    if check is None:
        yield f"{check_id} was left out by --select or --ignore"
    elif not said and isinstance(check, FleetCheck) and nodes < 2:
        yield f"{check_id} compares nodes, and this is evidence of one: look at both ends together"
    elif not said and (not whole or check.on_demand):
        yield f"{check_id} saw nothing that it reads: output of {', '.join(check.tools)}"
    unknown = [finding for finding in said if finding.status is Status.UNKNOWN]
    if unknown and len(unknown) == len(said):
        yield from (f"{check_id}, {finding.subject}: {finding.summary}" for finding in unknown[:3])


def places(explored: Sequence[Explored]) -> dict[str, int]:
    """By check ID, how near the front the symptoms want it."""
    order = dict.fromkeys(check for one in explored for cause in one.symptom.causes for check in cause.checks)
    return {check: place for place, check in enumerate(order)}
