"""Classification by another field than the policy's."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\bmlnx_qos\b[^\n|;]{0,80}?\s--trust[= ]\s*(?P<field>\w+)")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    for line, match in text.find(_BAD):
        if match["field"].lower() != policy.values.fabric.trust:
            yield line.hit(match.start("field"), f"--trust {match['field']}")


def _right(policy: Policy) -> str:
    return f"`mlnx_qos -i IF --trust {policy.values.fabric.trust}`"


RULE = Rule(
    id="PD-LINT-026",
    title="Classification by another field than the policy's",
    status=Status.FAIL,
    find=find,
    right=_right,
)
