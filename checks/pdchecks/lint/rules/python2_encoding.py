"""Python 2's way to UTF-8."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\bsys\.setdefaultencoding\s*\(|\breload\s*\(\s*sys\s*\)")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return '`open(..., encoding="utf-8")`, or `PYTHONUTF8=1` in the environment'


RULE = Rule(id="PD-LINT-018", title="Python 2's way to UTF-8", status=Status.FAIL, find=find, right=_right)
