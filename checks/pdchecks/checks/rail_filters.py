"""ARP and reverse-path settings of a node with several interfaces in the same or in routed subnets."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.host import Sysctl
from pdchecks.finding import Severity
from pdchecks.kernel_value import judge_value
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for fact in node.all(Sysctl):
        wanted = policy.values.sysctl.get(fact.key)
        if wanted is not None and ".conf." in fact.key:
            yield judge_value(
                fact,
                wanted,
                more_is_fine=False,
                cause="With several rails the kernel answers ARP for any address on any interface, and strict reverse-path "
                "filtering drops what comes back by another rail: peers reach the wrong port, or time out.",
            )


CHECK = NodeCheck(
    id="PD-SYSCTL-002",
    topic="sysctl.rails",
    title="ARP or reverse-path settings differ from the policy",
    severity=Severity.MEDIUM,
    tools=("sysctl",),
    sources=("linux Documentation/networking/ip-sysctl.rst, arp_ignore, arp_announce, rp_filter", "RFC 3704"),
    judge=judge,
)
