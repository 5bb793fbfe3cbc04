"""locale-gen with an argument."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\blocale-gen\s+(?:--\S+\s+)*[a-z]{2}_[A-Z]{2}\S*")
_EDITS = pattern(r"/etc/locale\.gen\b")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    if not any(True for _ in text.find(_EDITS)):
        yield from each(text, _BAD)


def _right(policy: Policy) -> str:
    return (
        f"a locale that exists, such as {policy.values.locale.candidates[0]}: `pdctl provision INVENTORY --tags locale`"
    )


RULE = Rule(id="PD-LINT-015", title="locale-gen with an argument", status=Status.WARN, find=find, right=_right)
