"""compute_mode asked of the compute-apps query."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"--query-compute-apps[= ][\w,.]*\bcompute_mode\b")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "`--query-compute-apps=gpu_uuid,pid,process_name,used_memory` and `--query-gpu=uuid,compute_mode`"


RULE = Rule(
    id="PD-LINT-012", title="compute_mode asked of the compute-apps query", status=Status.FAIL, find=find, right=_right
)
