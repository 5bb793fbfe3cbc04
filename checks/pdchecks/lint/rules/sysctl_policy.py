"""A kernel setting against the policy."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule
from pdchecks.lint.settings import integer, kernel_settings
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    for setting in kernel_settings(text):
        wanted = policy.values.sysctl.get(setting.key)
        value = integer(setting.value)
        if wanted is None or value is None or not isinstance(wanted, int) or setting.key.endswith("reachable_time_ms"):
            continue
        exact = ".conf." in setting.key
        if value != wanted if exact else value < wanted:
            yield setting.hit(f"{setting.key} = {wanted}, or an override of that key in policy.yml")


def _right(policy: Policy) -> str:
    return "the policy's value, or an override in policy.yml beside the inventory"


RULE = Rule(id="PD-LINT-023", title="A kernel setting against the policy", status=Status.WARN, find=find, right=_right)
