"""Parts of vLLM that do not exist."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\bP2pNcclConnector\b|\binject_kv_cache\b|--swap-space\b")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "a connector that this version of vLLM registers: NixlConnector, MooncakeConnector, or one named by its module path"


RULE = Rule(id="PD-LINT-034", title="Parts of vLLM that do not exist", status=Status.FAIL, find=find, right=_right)
