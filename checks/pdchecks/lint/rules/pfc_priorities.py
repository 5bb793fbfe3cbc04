"""PFC on other priorities than the policy's."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule, pattern
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_MLNX = pattern(r"\bmlnx_qos\b[^\n|;]{0,80}?\s(?:-f|--pfc)[= ]\s*(?P<bits>[01](?:,[01]){7})")
_DCB = pattern(r"\bdcb\s+pfc\s+(?:set|replace)\b[^\n|;]{0,60}?prio-pfc\s+(?P<map>(?:(?:all|\d):(?:on|off)\s*)+)")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    wanted = {policy.values.fabric.lossless_priority}
    for line, match in text.find(_MLNX):
        on = {number for number, bit in enumerate(match["bits"].split(",")) if bit == "1"}
        if on != wanted:
            yield line.hit(match.start("bits"), f"--pfc {match['bits']}")
    for line, match in text.find(_DCB):
        entries = [entry.split(":") for entry in match["map"].split()]
        on = {int(prio) for prio, state in entries if state == "on" and prio != "all"}
        if ["all", "on"] in entries or (on and on != wanted):
            yield line.hit(match.start("map"), f"prio-pfc {match['map']}")


def _right(policy: Policy) -> str:
    return ",".join(str(int(n == policy.values.fabric.lossless_priority)) for n in range(8)).join(
        ("`mlnx_qos -i IF --pfc ", "`")
    )


RULE = Rule(
    id="PD-LINT-024", title="PFC on other priorities than the policy's", status=Status.FAIL, find=find, right=_right
)
