"""Expandable segments under RDMA."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"PYTORCH_(?:CUDA_)?ALLOC_CONF\b[^\n]{0,80}?expandable_segments\s*:\s*true")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "leave it out on engines whose KV memory is registered for RDMA"


RULE = Rule(id="PD-LINT-030", title="Expandable segments under RDMA", status=Status.WARN, find=find, right=_right)
