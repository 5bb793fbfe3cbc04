"""A system file overwritten."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(
    r"(?<![>\d&])>\s*/etc/(?:sysctl\.conf|security/limits\.conf|environment|fstab|hosts|modules|modprobe\.conf|profile)(?![\w./-])"
    r"|\btee\s+/etc/(?:sysctl\.conf|security/limits\.conf|environment|fstab|hosts|modules|profile)(?![\w./-])"
)


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "a file of your own in the .d folder beside it (/etc/sysctl.d, /etc/security/limits.d, /etc/modprobe.d)"


RULE = Rule(id="PD-LINT-020", title="A system file overwritten", status=Status.FAIL, find=find, right=_right)
