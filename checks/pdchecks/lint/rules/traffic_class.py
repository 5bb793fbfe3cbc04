"""A traffic class without ECN bits, or of another DSCP."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, pattern
from pdchecks.lint.settings import integer, variables
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy
from pdchecks.roce import traffic_class

_TOS = pattern(r"\bcma_roce_tos\b[^\n|;]{0,60}?\s-t\s*(?P<value>\d{1,3})")
_NAMES = ("NCCL_IB_TC", "UCX_IB_TRAFFIC_CLASS", "NVSHMEM_IB_TRAFFIC_CLASS")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    wanted = traffic_class(policy.values.fabric.dscp)
    for line, match in text.find(_TOS):
        if int(match["value"]) != wanted:
            yield line.hit(match.start(), match[0])
    for setting in variables(text, *_NAMES):
        value = integer(setting.value)
        if value is not None and value != wanted:
            yield setting.hit()


def _right(policy: Policy) -> str:
    return f"{traffic_class(policy.values.fabric.dscp)}: DSCP {policy.values.fabric.dscp} with ECT(0)"


RULE = Rule(
    id="PD-LINT-027",
    title="A traffic class without ECN bits, or of another DSCP",
    status=Status.FAIL,
    find=find,
    right=_right,
)
