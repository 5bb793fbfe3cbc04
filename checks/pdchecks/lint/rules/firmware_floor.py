"""A firmware below the policy's floor."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.firmware import fields
from pdchecks.lint.rule import Rule, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_VERSION = pattern(r"(?<![\d.])\d{2}\.\d{1,3}\.\d{3,5}(?![\d.])")
_WANTED = pattern(
    r"\b(?:flint|mstflint|mlxfwmanager|firmware|fw|fw_?ver\w*|burn|min\w*|require\w*|at least|upgrade\w*|or (?:newer|later))\b|>="
)


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    families = policy.values.firmware.families.items()
    for line, match in text.find(_VERSION):
        if not _WANTED.search(line.text):
            continue
        for name, family in families:
            floor = family.minimum
            if floor and match[0].startswith(f"{family.prefix}.") and fields(match[0]) < fields(floor):
                yield line.hit(match.start(), match[0], f"{name}: {floor} or newer, better {family.recommended}")


def _right(policy: Policy) -> str:
    return "the floors of the policy: `pdctl policy show`"


RULE = Rule(id="PD-LINT-010", title="A firmware below the policy's floor", status=Status.FAIL, find=find, right=_right)
