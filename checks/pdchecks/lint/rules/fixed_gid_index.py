"""One GID index for every node."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.gids import VARIABLES
from pdchecks.lint.rule import Rule
from pdchecks.lint.settings import integer, variables
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

# A file that was made for one node may name its index.
_MADE = "# Made by `pdctl env`"


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    if text.content.startswith(_MADE):
        return
    for setting in variables(text, *VARIABLES):
        if integer(setting.value) is not None:
            yield setting.hit()


def _right(policy: Policy) -> str:
    return "per node, from its own table: `pdctl env NODE`; NCCL chooses by itself where the variable is unset"


RULE = Rule(id="PD-LINT-028", title="One GID index for every node", status=Status.WARN, find=find, right=_right)
