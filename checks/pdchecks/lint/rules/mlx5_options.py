"""mlx5_core options that do not exist."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_LINE = pattern(r"(?:options|modprobe)\s+mlx5_core\s+(?P<options>[\w= ,.-]+)")
_NAME = pattern(r"\b(?P<name>[a-z]\w+)\s*=")
_REAL = {"debug_mask", "prof_sel"}


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    for line, match in text.find(_LINE):
        for option in _NAME.finditer(match["options"]):
            if option["name"].lower() not in _REAL:
                yield line.hit(match.start("options") + option.start(), option[0])


def _right(policy: Policy) -> str:
    return "leave it out; `modinfo -p mlx5_core` lists what the installed module accepts, `ethtool -G` sets rings"


RULE = Rule(id="PD-LINT-001", title="mlx5_core options that do not exist", status=Status.FAIL, find=find, right=_right)
