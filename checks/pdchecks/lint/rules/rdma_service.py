"""The rdma service."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(
    r"\bsystemctl\s+(?:-\S+\s+)*(?:enable|start|restart|is-active|status|reload)\s+(?:--now\s+)?rdma(?:\.service)?(?![\w@.-])"
    r"|\bservice\s+rdma\s+\w+|\bchkconfig\s+rdma\b|^\s*name:\s*[\"']?rdma(?:\.service)?[\"']?\s*$"
)


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "`pdctl provision INVENTORY --tags rdma`, or `systemctl enable rdma-load-modules@rdma.service`"


RULE = Rule(id="PD-LINT-011", title="The rdma service", status=Status.FAIL, find=find, right=_right)
