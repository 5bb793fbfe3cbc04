"""Locked memory limited."""

from collections.abc import Iterator
from re import Match

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_BAD = pattern(
    r"\bLimitMEMLOCK\s*=\s*(?P<unit>\d+[KMGT]?)\b|--ulimit\s+memlock=(?P<docker>\d+)"
    r"|^\s*\S+\s+(?:soft|hard|-)\s+memlock\s+(?P<pam>\d+)|\bulimit\s+-l\s+(?P<shell>\d+)"
)
_FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    wanted = policy.values.limits.memlock
    for line, match in text.find(_BAD):
        if isinstance(wanted, str) or _bytes(match) < wanted:
            yield line.hit(match.start(), match[0])


def _bytes(match: Match[str]) -> int:
    if match["unit"]:
        return int(match["unit"].rstrip("KMGTkmgt")) * _FACTORS.get(match["unit"][-1].upper(), 1)
    # Docker counts bytes; pam_limits and ulimit count KiB.
    return int(match["docker"]) if match["docker"] else int(match["pam"] or match["shell"]) * 1024


def _right(policy: Policy) -> str:
    return f"memlock {policy.values.limits.memlock}: `LimitMEMLOCK=infinity` in the unit, `--ulimit memlock=-1` for a container"


RULE = Rule(id="PD-LINT-031", title="Locked memory limited", status=Status.FAIL, find=find, right=_right)
