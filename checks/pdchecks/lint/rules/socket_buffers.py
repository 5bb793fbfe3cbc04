"""Socket buffers raised halfway."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule
from pdchecks.lint.settings import kernel_settings
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_TCP = {"net.core.rmem_max": "net.ipv4.tcp_rmem", "net.core.wmem_max": "net.ipv4.tcp_wmem"}


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    settings = list(kernel_settings(text))
    keys = {setting.key for setting in settings}
    for setting in settings:
        if setting.key in _TCP and _TCP[setting.key] not in keys:
            yield setting.hit(f"set {_TCP[setting.key]} as well: {policy.values.sysctl.get(_TCP[setting.key])}")


def _right(policy: Policy) -> str:
    return "all four keys together: `pdctl provision INVENTORY --tags sysctl`"


RULE = Rule(id="PD-LINT-019", title="Socket buffers raised halfway", status=Status.WARN, find=find, right=_right)
