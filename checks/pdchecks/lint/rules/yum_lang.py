"""yum run with LANG alone."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"(?<![\w])LANG=\S+\s+(?:command\s+|sudo\s+)?(?:yum|dnf)\b")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    for line, match in text.find(_BAD):
        if "LC_ALL=" not in line.text:
            yield line.hit(match.start(), match[0])


def _right(policy: Policy) -> str:
    return "LC_ALL with a locale that `locale -a` lists; `pdctl provision INVENTORY --tags safe_yum` installs a wrapper that does"


RULE = Rule(id="PD-LINT-016", title="yum run with LANG alone", status=Status.WARN, find=find, right=_right)
