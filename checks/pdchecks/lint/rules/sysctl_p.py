"""sysctl -p after writing a drop-in."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\bsysctl\s+(?:-p|--load)\s*(?=$|[;&|`])")
_DROP_IN = pattern(r"/etc/sysctl\.d/")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    if any(True for _ in text.find(_DROP_IN)):
        yield from each(text, _BAD)


def _right(policy: Policy) -> str:
    return "`sysctl --system`"


RULE = Rule(id="PD-LINT-021", title="sysctl -p after writing a drop-in", status=Status.WARN, find=find, right=_right)
