"""Nodes whose NICs treat RoCE traffic differently."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pdchecks.check import FleetCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.fabric import judged
from pdchecks.facts.net import PauseFrames
from pdchecks.facts.qos import CnpMark, CongestionControl, QosDscpMap, QosPfc, QosTrust
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known

_CAUSE = (
    "A class is lossless only if every hop and both ends agree: one end that classifies otherwise sends its packets, "
    "acknowledgements or notifications through a class that drops them, in one direction only."
)


@dataclass(frozen=True, slots=True)
class _Setting:
    """One setting of one interface. wanted: the policy's, in the same words."""

    name: str
    node: str
    netdev: str
    value: str
    wanted: str
    quote: Quote


def judge(nodes: Sequence[tuple[NodeFacts, Policy]]) -> Iterator[Verdict]:
    by_name: dict[str, list[_Setting]] = {}
    for node, policy in nodes:
        for setting in _settings(node, policy):
            if judged(node, setting.netdev):
                by_name.setdefault(setting.name, []).append(setting)
    alike: list[_Setting] = []
    differ = False
    for name, settings in by_name.items():
        if len({setting.node for setting in settings}) < 2:
            continue
        odd = list(_odd(name, settings))
        differ = differ or bool(odd)
        yield from odd
        alike += [] if odd else settings[:1]
    if alike and not differ:
        listed = ", ".join(f"{setting.name} {setting.value}" for setting in alike)
        quotes = tuple(setting.quote for setting in alike)
        yield Verdict(Status.PASS, "QoS of all nodes", f"the same on all nodes: {listed}", quotes=quotes)


def _settings(node: NodeFacts, policy: Policy) -> Iterator[_Setting]:
    fabric = policy.values.fabric
    lossless = fabric.lossless_priority

    def make(name: str, netdev: str, value: str, wanted: str, quote: Quote) -> _Setting:
        return _Setting(name, node.name, netdev, value, wanted, quote)

    for trust in node.all(QosTrust):
        if (field := known(trust.trust)) is not None:
            yield make("trust", trust.netdev, field, fabric.trust, trust.quote)
    for pfc in node.all(QosPfc):
        if (enabled := known(pfc.enabled)) is not None:
            on = ",".join(map(str, sorted(enabled))) or "none"
            yield make("PFC on priority", pfc.netdev, on, str(lossless), pfc.quote)
    for dscp in node.all(QosDscpMap):
        if fabric.dscp in dscp.priority:
            name = f"priority of DSCP {fabric.dscp}"
            yield make(name, dscp.netdev, str(dscp.priority[fabric.dscp]), str(lossless), dscp.quote)
    for control in node.all(CongestionControl):
        if lossless in control.enabled:
            wanted = fabric.ecn.notification_point if control.role == "np" else fabric.ecn.reaction_point
            name = f"roce_{control.role} on priority {lossless}"
            yield make(name, control.netdev, _on(control.enabled[lossless]), _on(wanted), control.quote)
    for mark in node.all(CnpMark):
        wanted_mark = fabric.cnp.dscp if mark.field == "DSCP" else fabric.cnp.priority
        yield make(f"{mark.field} of CNPs", mark.where, str(mark.value), str(wanted_mark), mark.quote)
    for pause in node.all(PauseFrames):
        yield make(
            "global pause", pause.netdev, _on(pause.receive or pause.send), _on(fabric.global_pause), pause.quote
        )


def _on(value: bool) -> str:
    return "on" if value else "off"


def _odd(name: str, settings: Sequence[_Setting]) -> Iterator[Verdict]:
    """Those that differ from what the policy says if some node has it, else from what most interfaces have."""
    count = Counter(setting.value for setting in settings)
    fitting = next((setting.value for setting in settings if setting.value == setting.wanted), None)
    usual = fitting or max(count, key=lambda value: count[value])
    for setting in settings:
        like = next((o for o in settings if o.value == usual and o.node != setting.node), None)
        if setting.value == usual or like is None:
            continue
        yield Verdict(
            Status.WARN,
            f"{name} of {setting.netdev}",
            f"{setting.node} ({setting.netdev}) has {setting.value}, {like.node} ({like.netdev}) has {like.value}",
            _CAUSE,
            (setting.quote, like.quote),
            (f"mlnx_qos -i {setting.netdev}   # on {setting.node}", f"mlnx_qos -i {like.netdev}   # on {like.node}"),
            Remedy(
                f"Set both nodes and the switch ports between them alike; the policy says {setting.wanted}. Set it "
                "again at each boot.",
                survives_reboot=False,
            ),
            node=setting.node,
            peer=like.node,
        )


CHECK = FleetCheck(
    id="PD-QOS-008",
    topic="qos.pair",
    title="Nodes treat RoCE traffic differently",
    severity=Severity.HIGH,
    tools=("mlnx_qos", "dcb"),
    sources=("mlnx-tools python/mlnx_qos", "https://github.com/NVIDIA/network-operator/issues/179"),
    judge=judge,
)
