"""A loop over devices that creates contexts."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_SET = pattern(r"\btorch\.cuda\.set_device\s*\(")
_EMPTY = pattern(r"\btorch\.cuda\.empty_cache\s*\(")
_NEAR = 4


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    emptied = [line.starts[0][1] for line, _ in text.find(_EMPTY)]
    for line, match in text.find(_SET):
        if any(0 <= number - line.starts[0][1] <= _NEAR for number in emptied):
            yield line.hit(match.start(), match[0])


def _right(policy: Policy) -> str:
    return "`CUDA_VISIBLE_DEVICES` with the one GPU that the process is given; a context goes when its process ends"


RULE = Rule(
    id="PD-LINT-014", title="A loop over devices that creates contexts", status=Status.FAIL, find=find, right=_right
)
