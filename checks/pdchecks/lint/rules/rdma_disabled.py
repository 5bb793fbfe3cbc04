"""RDMA switched off."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, pattern
from pdchecks.lint.settings import variables
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_RDMA = {"rc", "rc_x", "rc_v", "rc_mlx5", "rc_verbs", "dc", "dc_x", "dc_mlx5", "ud", "ud_x", "ib", "all"}
_TRUE = {"1", "true", "yes", "on"}


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    for setting in variables(text, "NCCL_IB_DISABLE", "MC_FORCE_TCP"):
        if setting.value.lower() in _TRUE:
            yield setting.hit()
    for line, match in text.find(_TLS):
        names = set(match["names"].lower().split(","))
        if "tcp" in names and not names & _RDMA:
            yield line.hit(match.start(), match[0])


_TLS = pattern(r"\bUCX_TLS[\"']?\s*[=:]\s*[\"']?(?P<names>[\w,]+)")


def _right(policy: Policy) -> str:
    return "leave it out, and let `pdctl doctor` say why RDMA did not work"


RULE = Rule(id="PD-LINT-033", title="RDMA switched off", status=Status.WARN, find=find, right=_right)
