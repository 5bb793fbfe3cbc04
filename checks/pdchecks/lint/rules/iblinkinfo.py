"""InfiniBand fabric tools on RoCE."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, each, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(r"\b(?:iblinkinfo|ibnetdiscover|ibhosts|ibswitches)\b")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    return each(text, _BAD)


def _right(policy: Policy) -> str:
    return "RoCE: `rdma link`, `ibv_devinfo | grep active_mtu` on both ends, `lldpctl` for the switch port"


RULE = Rule(id="PD-LINT-007", title="InfiniBand fabric tools on RoCE", status=Status.WARN, find=find, right=_right)
