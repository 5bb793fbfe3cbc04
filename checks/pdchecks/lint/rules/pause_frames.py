"""Global pause switched on."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\bethtool\s+(?:-A|--pause)\s+\S+[^\n|;]{0,30}?\s(?:rx|tx)\s+on\b")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    if not policy.values.fabric.global_pause:
        yield from each(text, _BAD)


def _right(policy: Policy) -> str:
    return "`ethtool -A IF autoneg off rx off tx off`, and PFC on the lossless priority"


RULE = Rule(id="PD-LINT-025", title="Global pause switched on", status=Status.FAIL, find=find, right=_right)
