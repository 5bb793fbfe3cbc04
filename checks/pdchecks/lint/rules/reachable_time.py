"""A neighbour reachable time below the policy's floor."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule
from pdchecks.lint.settings import integer, kernel_settings
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    floor = policy.values.neighbour.reachable_floor_ms
    for setting in kernel_settings(text):
        name = setting.key.rsplit(".", 1)[-1]
        value = integer(setting.value)
        unit = {"base_reachable_time_ms": 1, "base_reachable_time": 1000}.get(name)
        if unit and value is not None and value * unit < floor:
            yield setting.hit()


def _right(policy: Policy) -> str:
    return (
        "leave it alone; raise net.ipv4.neigh.default.gc_thresh1 to gc_thresh3 where the table overflows: "
        "`pdctl provision INVENTORY --tags sysctl`"
    )


RULE = Rule(
    id="PD-LINT-004",
    title="A neighbour reachable time below the policy's floor",
    status=Status.FAIL,
    find=find,
    right=_right,
)
