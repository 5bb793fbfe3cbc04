"""The link layer taken for offload."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\bibstat\b[^|\n]{0,80}\|\s*e?grep\b[^\n|]{0,20}link.layer[^\n]{0,80}(?:offload|ethernet)")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "`pdctl doctor --select PD-OFF`: which transport the library took, and whether the device is rxe or siw"


RULE = Rule(id="PD-LINT-009", title="The link layer taken for offload", status=Status.WARN, find=find, right=_right)
