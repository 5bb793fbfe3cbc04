"""A wrapper that breaks its arguments."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\b(?:yum|dnf|apt-get|apt|zypper)\b(?:\s+-\S+)*\s+(?:\w+\s+)?\$(?:@|\*)")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return '`"$@"`, in double quotes'


RULE = Rule(id="PD-LINT-017", title="A wrapper that breaks its arguments", status=Status.WARN, find=find, right=_right)
