"""Locked memory below the policy: RDMA memory cannot be registered."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict, mild
from pdchecks.facts.host import Limit
from pdchecks.facts.log import KernelEvent, ObjectRefused
from pdchecks.facts.rdma import NoRdmaDevice
from pdchecks.finding import Severity, Status
from pdchecks.limit_scope import floor_of, judge_limit, limits
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.quantity import size

# The card ran out of something, which the kernel logs.
_CARD = ("command-refused", "mkey-refused")
_CAUSE = (
    "Registered memory is locked memory: with this limit `ibv_reg_mr` and `ibv_create_cq` fail with Cannot allocate "
    "memory. limits.d reaches logins only; a systemd unit takes LimitMEMLOCK, a container --ulimit memlock=-1."
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    refused = tuple(f.quote for f in node.all(ObjectRefused) if "allocate memory" in f.words.lower())
    if (
        refused
        and not any(fact.name == "memlock" for fact in node.all(Limit))
        and not any(event.kind in _CARD for event in node.all(KernelEvent))
    ):
        yield Verdict(
            Status.UNKNOWN,
            "memlock",
            "not known whether the locked-memory limit did it: a verbs object was refused for want of memory, no limit was shown",
            "The limit is the first suspect; the card's own resources are the second, and then the kernel's log says so.",
            refused,
            ("grep 'locked memory' /proc/PID/limits", "dmesg | grep -i mlx5"),
        )
    unneeded = not refused and bool(node.all(NoRdmaDevice))
    for limit in limits(node, "memlock"):
        verdict = judge_limit(
            limit,
            floor_of(policy, "memlock"),
            size,
            cause=_CAUSE,
            verify=("ulimit -l", "grep 'locked memory' /proc/self/limits", "systemctl show -p DefaultLimitMEMLOCK"),
            also=refused,
            below=Status.FAIL,
        )
        yield mild(verdict, "which only RDMA needs, and this node has no RDMA device") if unneeded else verdict


CHECK = NodeCheck(
    id="PD-LIMIT-001",
    topic="limits.memlock",
    title="Locked memory is limited",
    severity=Severity.CRITICAL,
    tools=("limits", "systemctl", "ulimit"),
    sources=(
        "https://github.com/openucx/ucx/issues/8229",
        "libibverbs src/init.c, check_memlock_limit",
        "systemd.exec(5), LimitMEMLOCK",
    ),
    judge=judge,
)
