"""ARP and reverse-path settings of a node with several interfaces in the same or in routed subnets."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict, mild
from pdchecks.fabric import NO_RAILS, has_no_rails
from pdchecks.facts.host import Sysctl
from pdchecks.finding import Severity
from pdchecks.kernel_value import judge_value
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known

_OTHER = "Hosts with several rails need it as the policy has it, so that each rail answers and is answered by itself."
# By setting and value; without a value: any other. linux Documentation/networking/ip-sysctl.rst.
_CAUSES = {
    ("arp_ignore", "0"): "The kernel answers ARP for any of its addresses on any interface: with several rails in one "
    "subnet peers learn the wrong port's MAC address.",
    ("arp_announce", "0"): "The kernel may name the address of another interface in its ARP requests: with several "
    "rails peers then record that address at the wrong port.",
    (
        "rp_filter",
        "0",
    ): "Reverse-path filtering is off: nothing is dropped, and rails work. Packets with a forged source "
    "are taken too, which the policy's value refuses where no route leads back to that source.",
    (
        "rp_filter",
        "1",
    ): "Reverse-path filtering is strict: the kernel drops a packet whose answer would leave by another "
    "interface. With several rails that is traffic of peers, which then time out.",
    ("rp_filter", "2"): "Reverse-path filtering is loose: a source is taken if any route leads to it.",
}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for fact in node.all(Sysctl):
        wanted = policy.values.sysctl.get(fact.key)
        if wanted is not None and ".conf." in fact.key:
            verdict = judge_value(fact, wanted, more_is_fine=False, cause=_cause(fact))
            yield mild(verdict, NO_RAILS) if has_no_rails(node) else verdict


def _cause(fact: Sysctl) -> str:
    setting = fact.key.rsplit(".", 1)[-1]
    return _CAUSES.get((setting, known(fact.value) or "")) or _CAUSES.get((setting, ""), _OTHER)


CHECK = NodeCheck(
    id="PD-SYSCTL-002",
    topic="sysctl.rails",
    title="ARP or reverse-path settings differ from the policy",
    severity=Severity.MEDIUM,
    tools=("sysctl",),
    sources=("linux Documentation/networking/ip-sysctl.rst, arp_ignore, arp_announce, rp_filter", "RFC 3704"),
    judge=judge,
)
