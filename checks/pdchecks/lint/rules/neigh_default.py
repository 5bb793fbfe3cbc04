"""neigh/default changed by hand."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(
    r">\s*/proc/sys/net/ipv[46]/neigh/default/\w+|tee\s+/proc/sys/net/ipv[46]/neigh/default/\w+"
    r"|sysctl\s+(?:-\w+\s+)*-w\s+net\.ipv[46]\.neigh\.default\.\w+"
)


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "a drop-in of /etc/sysctl.d that is read back: `pdctl provision INVENTORY --tags sysctl`"


RULE = Rule(id="PD-LINT-005", title="neigh/default changed by hand", status=Status.WARN, find=find, right=_right)
