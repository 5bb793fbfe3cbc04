"""ibstat asked for an MTU."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\bibstat(?:us)?\b[^|\n]{0,80}\|\s*e?grep\b[^\n|]{0,40}mtu")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "`ibv_devinfo | grep active_mtu`, on both ends"


RULE = Rule(id="PD-LINT-008", title="ibstat asked for an MTU", status=Status.FAIL, find=find, right=_right)
