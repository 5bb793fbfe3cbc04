"""TCP offloads of an interface: they serve bootstrap and the tcp transport, never RoCE."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.fabric import carries_rdma
from pdchecks.facts.net import Offload
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# Names of ethtool -k and the short ones of -K.
_MATTER = {
    "rx-checksumming": "rx",
    "tx-checksumming": "tx",
    "scatter-gather": "sg",
    "tcp-segmentation-offload": "tso",
    "generic-receive-offload": "gro",
}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    by_netdev: dict[str, list[Offload]] = {}
    for fact in node.all(Offload):
        by_netdev.setdefault(fact.netdev, []).append(fact)
    for netdev, facts in by_netdev.items():
        carries = carries_rdma(node, netdev)
        if carries is not False:
            yield _judge(netdev, facts)


def _judge(netdev: str, facts: list[Offload]) -> Verdict:
    off = [fact for fact in facts if fact.feature in _MATTER and not fact.on and not fact.fixed]
    if off:
        names = ", ".join(fact.feature for fact in off)
        switches = " ".join(f"{_MATTER[fact.feature]} on" for fact in off)
        return Verdict(
            Status.WARN,
            netdev,
            f"{names} off, although the card can do it",
            "TCP then costs the CPU more a byte. RoCE is not touched: its transport is always in the card.",
            tuple(fact.quote for fact in off),
            (f"ethtool -k {netdev}",),
            Remedy("Turn them on, at each boot.", commands=(f"ethtool -K {netdev} {switches}",), survives_reboot=False),
        )
    fixed = [fact for fact in facts if fact.fixed and not fact.on]
    if not fixed:
        quotes = tuple(fact.quote for fact in facts if fact.feature in _MATTER)
        return Verdict(Status.PASS, netdev, "the TCP offloads that matter are on", quotes=quotes)
    return Verdict(
        Status.INFO,
        netdev,
        f"off [fixed]: {', '.join(fact.feature for fact in fixed[:12])}"
        + (f" and {len(fixed) - 12} more" if len(fixed) > 12 else ""),
        "[fixed] means that this driver, firmware and kernel cannot change it: a capability, not a setting. None of "
        "these concerns RoCE, whose transport is always in the card.",
        tuple(fact.quote for fact in fixed),
        (f"ethtool -k {netdev} | grep fixed",),
    )


CHECK = NodeCheck(
    id="PD-OFF-002",
    topic="offload.features",
    title="TCP offload is off",
    severity=Severity.LOW,
    tools=("ethtool",),
    sources=("ethtool(8)", "linux Documentation/networking/netdev-features.rst"),
    need=Need.ROCE,
    judge=judge,
)
