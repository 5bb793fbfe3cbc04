"""What a rule is: an ID, what it flags, and the right setting. Its words stand in the Markdown file beside it."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pdchecks.finding import Status
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

HEADS = ("What it flags", "Why", "Sources")
Find = Callable[[Text, Policy], Iterable[Hit]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """id: PD-LINT-<NNN>, never reused. status: fail does harm or nothing at all, warn is right on some hosts.

    right: what to write instead, by the policy; a hit's own word comes first.
    """

    id: str
    title: str
    status: Status
    find: Find
    right: Callable[[Policy], str]

    @property
    def module(self) -> str:
        return self.find.__module__.rsplit(".", 1)[-1]

    @property
    def document(self) -> str:
        """The Markdown file beside the rule."""
        return _document(self.module)

    @property
    def why(self) -> str:
        return " ".join(_section(self.document, "Why").split())

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(line.removeprefix("- ") for line in _section(self.document, "Sources").splitlines() if line)


@dataclass(frozen=True, slots=True)
class Advice:
    """One place where a text gives bad advice."""

    rule: Rule
    file: str
    hit: Hit
    right: str


@cache
def _document(module: str) -> str:
    return (files("pdchecks") / "lint" / "rules" / f"{module}.md").read_text(encoding="utf-8")


def _section(document: str, head: str) -> str:
    return document.partition(f"## {head}\n")[2].partition("\n## ")[0].strip()


def pattern(expression: str) -> re.Pattern[str]:
    """A rule's expression: whatever the case, blanks as written."""
    return re.compile(expression, re.IGNORECASE)


def each(text: Text, expression: re.Pattern[str], *, prose: bool = True) -> Iterator[Hit]:
    """A hit for every match."""
    for line, match in text.find(expression, prose=prose):
        yield line.hit(match.start(), match[0])
