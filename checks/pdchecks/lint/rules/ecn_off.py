"""ECN switched off."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(
    r"(?:disabl\w*|turn(?:ing)? off|switch(?:ing)? off)\s+(?:the\s+)?ECN\b"
    r"|\becn\s+(?:disable|off)\b|^\s*no\s+(?:[\w-]+\s+){0,4}ecn\b"
    r"|echo\s+[\"']?0[\"']?\s*>\s*\S*/ecn/roce_[nr]p/enable/\S+"
)


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "leave ECN on at switch, receiver (roce_np) and sender (roce_rp): `pdctl doctor --select PD-ECN` looks at all three"


RULE = Rule(id="PD-LINT-003", title="ECN switched off", status=Status.FAIL, find=find, right=_right)
