"""CUDA_LAUNCH_BLOCKING in production."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule
from pdchecks.lint.settings import variables
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    for setting in variables(text, "CUDA_LAUNCH_BLOCKING"):
        yield setting.hit()


def _right(policy: Policy) -> str:
    return "leave it out"


RULE = Rule(id="PD-LINT-029", title="CUDA_LAUNCH_BLOCKING in production", status=Status.WARN, find=find, right=_right)
