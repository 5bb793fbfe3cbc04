"""802.3x pause, which stops a whole link and excludes PFC."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.fabric import judged
from pdchecks.facts.net import PauseFrames
from pdchecks.facts.qos import QosPfc
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    lossless = {f.netdev for f in node.all(QosPfc) if not isinstance(f.enabled, Unknown) and f.enabled}
    for fact in node.all(PauseFrames):
        if judged(node, fact.netdev):
            yield _judge(fact, policy.values.fabric.global_pause, fact.netdev in lossless)


def _judge(fact: PauseFrames, wanted: bool, with_pfc: bool) -> Verdict:
    state = f"RX {_word(fact.receive)}, TX {_word(fact.send)}"
    if (fact.receive or fact.send) == wanted:
        return Verdict(Status.PASS, fact.netdev, f"global pause is {state}", quotes=(fact.quote,))
    if wanted:
        summary = f"global pause is {state}, the policy wants it on"
        return Verdict(Status.WARN, fact.netdev, summary, quotes=(fact.quote,), remedy=_remedy(fact.netdev, "on"))
    return Verdict(
        Status.FAIL if with_pfc else Status.WARN,
        fact.netdev,
        f"global pause is {state}" + (" while PFC is on: the two exclude each other" if with_pfc else ", not PFC's"),
        "802.3x pause stops every class on the link, management and congestion notifications too; one slow receiver "
        "then holds up all. PFC pauses one priority only.",
        (fact.quote,),
        (f"ethtool -a {fact.netdev}",),
        _remedy(fact.netdev, "off"),
    )


def _word(on: bool) -> str:
    return "on" if on else "off"


def _remedy(netdev: str, state: str) -> Remedy:
    return Remedy(
        f"Turn global pause {state} here and on the switch port, at each boot.",
        commands=(f"ethtool -A {netdev} autoneg off rx {state} tx {state}",),
        survives_reboot=False,
        impact=Impact.LINK_FLAP,
    )


CHECK = NodeCheck(
    id="PD-FLOW-001",
    topic="flow.global-pause",
    title="Global pause where PFC belongs",
    severity=Severity.MEDIUM,
    tools=("ethtool",),
    sources=("IEEE 802.1Q-2022 clause 36", "ethtool(8)"),
    need=Need.ROCE,
    judge=judge,
)
