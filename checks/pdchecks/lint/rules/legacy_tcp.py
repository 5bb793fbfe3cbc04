"""TCP tuning of another decade."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule
from pdchecks.lint.settings import kernel_settings
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_NEEDED = {"net.ipv4.tcp_timestamps", "net.ipv4.tcp_sack", "net.ipv4.tcp_window_scaling"}


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    for setting in kernel_settings(text):
        if setting.key in _NEEDED and setting.value == "0":
            yield setting.hit()


def _right(policy: Policy) -> str:
    return "leave it at 1, the kernel's default"


RULE = Rule(id="PD-LINT-022", title="TCP tuning of another decade", status=Status.WARN, find=find, right=_right)
