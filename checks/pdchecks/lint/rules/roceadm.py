"""roceadm does not exist."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\broceadm\b[^\n`]{0,40}")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "`mlnx_qos -i IF` or `dcb -s pfc show dev IF`, and `ethtool -S IF | grep -E 'prio|pause|discard'`"


RULE = Rule(id="PD-LINT-006", title="roceadm does not exist", status=Status.FAIL, find=find, right=_right)
