"""Socket buffers and queues of the kernel, and every other parameter of the policy that has no check of its own."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.host import Sysctl
from pdchecks.finding import Severity
from pdchecks.kernel_value import judge_value
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# Keys that name a bound: a value above the policy's is as good.
_BOUNDS = ("_max", "_rmem", "_wmem", "_mem", "somaxconn", "_backlog")
# Keys that other checks judge.
_ELSEWHERE = (".neigh.", ".conf.")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for fact in node.all(Sysctl):
        wanted = policy.values.sysctl.get(fact.key)
        if wanted is None or any(part in fact.key for part in _ELSEWHERE):
            continue
        yield judge_value(
            fact,
            wanted,
            more_is_fine=fact.key.endswith(_BOUNDS),
            cause="It bounds sockets: bootstrap and the tcp transport of KV, which then cannot fill a long fat link. "
            "Verbs traffic has no socket buffer and does not feel it.",
        )


CHECK = NodeCheck(
    id="PD-SYSCTL-001",
    topic="sysctl.buffers",
    title="Kernel buffers below the policy",
    severity=Severity.LOW,
    tools=("sysctl",),
    sources=(
        "linux Documentation/networking/ip-sysctl.rst",
        "linux Documentation/admin-guide/sysctl/net.rst",
        "tcp(7)",
    ),
    judge=judge,
)
