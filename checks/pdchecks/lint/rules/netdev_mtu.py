"""An interface MTU that is RoCE's path MTU."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy
from pdchecks.roce import PATH_MTUS

_SIZES = "|".join(str(size) for size in PATH_MTUS if size >= 1024)
_BAD = pattern(rf"(?<![\w_.-])(?:ethernet\.|802-3-ethernet\.)?mtu(?:\s+to)?\s*[:= ]\s*[\"']?(?P<mtu>{_SIZES})(?![\w.])")
_VERBS = pattern(r"active_mtu|max_mtu|path mtu|roce|ib_write|ib_read|ib_send|MC_MTU|IBV_MTU|rdma")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    for line, match in text.find(_BAD):
        if not _VERBS.search(line.text):
            yield line.hit(match.start(), match[0])


def _right(policy: Policy) -> str:
    return f"MTU {policy.values.fabric.mtu.netdev} on interfaces, peers and switch ports gives RoCE {policy.values.fabric.mtu.roce}"


RULE = Rule(
    id="PD-LINT-002", title="An interface MTU that is RoCE's path MTU", status=Status.FAIL, find=find, right=_right
)
