"""Open files below the policy: a router or engine with many connections runs out of descriptors."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.converge import converge
from pdchecks.facts.host import Limit
from pdchecks.finding import Impact, Severity, Status
from pdchecks.limit_scope import judge_limit
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    wanted = policy.values.limits.nofile
    floor = None if wanted == "unlimited" else int(wanted)
    for limit in node.all(Limit):
        if limit.name == "nofile":
            yield judge_limit(
                limit,
                floor,
                lambda count: "unlimited" if count is None else str(count),
                cause="Each connection, file of KV and shared-memory segment takes a descriptor; past the limit accept() "
                "and open() fail with Too many open files.",
                verify=("ulimit -n", "grep 'open files' /proc/self/limits", "systemctl show -p DefaultLimitNOFILE"),
                remedy=converge(
                    "limits",
                    "Raise the limit of logins and of services, then log in again and restart the engines.",
                    impact=Impact.RESTART_ENGINE,
                ),
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
