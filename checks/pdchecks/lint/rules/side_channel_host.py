"""A side channel that peers cannot reach."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule
from pdchecks.lint.settings import variables
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_NOWHERE = {"localhost", "127.0.0.1", "0.0.0.0", "::", "::1", "[::]"}


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    for setting in variables(text, "VLLM_NIXL_SIDE_CHANNEL_HOST"):
        if setting.value.lower() in _NOWHERE:
            yield setting.hit()


def _right(policy: Policy) -> str:
    return "the node's own address on the fabric that its peers route to"


RULE = Rule(
    id="PD-LINT-032", title="A side channel that peers cannot reach", status=Status.FAIL, find=find, right=_right
)
