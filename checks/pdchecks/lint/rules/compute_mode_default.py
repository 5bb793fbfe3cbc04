"""Exclusive mode taken away as a cure."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\bnvidia-smi\b[^\n|;]{0,60}\s(?:-c|--compute-mode)[= ]\s*(?:0|DEFAULT)(?!\w)")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "find the processes (`pdctl doctor --select PD-GPU`) and end those that do not belong there"


RULE = Rule(id="PD-LINT-013", title="Exclusive mode taken away as a cure", status=Status.WARN, find=find, right=_right)
