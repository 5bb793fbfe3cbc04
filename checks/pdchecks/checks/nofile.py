"""Open files below the policy: a router or engine with many connections runs out of descriptors."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.finding import Severity, Status
from pdchecks.limit_scope import floor_of, judge_limit, limits
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for limit in limits(node, "nofile"):
        yield judge_limit(
            limit,
            floor_of(policy, "nofile"),
            lambda count: "unlimited" if count is None else str(count),
            cause="Each connection, file of KV and shared-memory segment takes a descriptor; past the limit accept() "
            "and open() fail with Too many open files.",
            verify=("ulimit -n", "grep 'open files' /proc/self/limits", "systemctl show -p DefaultLimitNOFILE"),
            below=Status.WARN,
        )


CHECK = NodeCheck(
    id="PD-LIMIT-002",
    topic="limits.nofile",
    title="Open files are limited",
    severity=Severity.LOW,
    tools=("limits", "systemctl", "ulimit"),
    sources=("getrlimit(2), RLIMIT_NOFILE", "systemd-system.conf(5), DefaultLimitNOFILE"),
    judge=judge,
)
