"""Asks every check about every node and gives the findings, worst first."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from pdchecks.check import Check, FleetCheck, Need, NodeCheck, Verdict, stamp
from pdchecks.evidence import Evidence
from pdchecks.fabric import far_end, ports
from pdchecks.facts.deployment import SupervisedUnit
from pdchecks.facts.gpu import Gpu, GpuPresent, GpuProcess
from pdchecks.facts.host import NonAsciiByte, RepoScan, Unit, YumWrapper
from pdchecks.facts.rdma import NoRdmaDevice
from pdchecks.finding import Finding, Severity, Status, Unrecognised
from pdchecks.nodefacts import NodeFacts, gather
from pdchecks.policy import Policy
from pdchecks.units import is_engine

_SEVERITIES = tuple(Severity)


def diagnose(
    evidence: Iterable[Evidence], policy_of: Callable[[str], Policy], checks: Sequence[Check] | None = None
) -> list[Finding]:
    """Findings of all nodes. policy_of: by a node's name. checks: the whole registry unless given."""
    from pdchecks.registry import CHECKS

    asked = CHECKS if checks is None else checks
    nodes = [(node, policy_of(node.name)) for node in map(gather, evidence)]
    return merged([of_node(node, policy, asked) for node, policy in nodes], nodes, asked)


def of_node(node: NodeFacts, policy: Policy, checks: Sequence[Check]) -> list[Finding]:
    """What the checks of one node say of it."""
    return [f for check in checks if isinstance(check, NodeCheck) for f in _ask_node(check, node, policy)]


def merged(
    findings: Iterable[Iterable[Finding]], nodes: Sequence[tuple[NodeFacts, Policy]], checks: Sequence[Check]
) -> list[Finding]:
    """The nodes' findings and those of the fleet, one for each subject of a check, worst first."""
    found = [finding for one in findings for finding in one]
    if len(nodes) > 1:
        found += [f for check in checks if isinstance(check, FleetCheck) for f in _ask_fleet(check, nodes)]
    return sorted(_settle(found), key=_order)


def unrecognised(nodes: Iterable[NodeFacts]) -> list[Unrecognised]:
    """Blocks that no reader knows. Our own collector prints a few for people; those are not listed."""
    return [
        Unrecognised(node.name, 0, unread.quote.command or unread.quote.text, unread.quote.text.count("\n") + 1)
        for node in nodes
        if not node.collected
        for unread in node.unread
        if not unread.known
    ]


def _ask_node(check: NodeCheck, node: NodeFacts, policy: Policy) -> Iterator[Finding]:
    if node.collected and check.need is not None and not _has(node, check.need):
        return
    try:
        verdicts = list(check.judge(node, policy))
    except Exception as error:
        verdicts = [_broke(check, error)]
    if not verdicts and node.collected and not check.on_demand:
        verdicts = [_silence(check, node)]
    for verdict in verdicts:
        yield stamp(check, _with_switch(check, node, verdict), node.name)


# Faults for whose cure somebody may have to look at the switch.
_CABLED = ("link.", "qos.", "flow.", "ecn.", "rdma.retrans", "rdma.drops", "mtu.")


def _with_switch(check: NodeCheck, node: NodeFacts, verdict: Verdict) -> Verdict:
    """The same, with the switch and its port where LLDP tells them."""
    if verdict.status not in (Status.WARN, Status.FAIL) or not check.topic.startswith(_CABLED):
        return verdict
    end = far_end(node, verdict.object)
    if end is None:
        return verdict
    where = f"At the other end of {end.netdev} is {end.switch}, port {end.port}."
    return replace(verdict, cause=f"{verdict.cause} {where}".strip(), quotes=(*verdict.quotes[:7], end.quote))


def _ask_fleet(check: FleetCheck, nodes: Sequence[tuple[NodeFacts, Policy]]) -> Iterator[Finding]:
    try:
        verdicts = list(check.judge(nodes))
    except Exception as error:
        verdicts = [_broke(check, error)]
    for verdict in verdicts:
        yield stamp(check, verdict, nodes[0][0].name)


def _broke(check: Check, error: Exception) -> Verdict:
    return Verdict(
        Status.UNKNOWN,
        "the check itself",
        f"{check.id} broke and said nothing: {type(error).__name__}: {error}",
        cause="A fault of this check, not of the node. The other checks went on.",
    )


def _silence(check: Check, node: NodeFacts) -> Verdict:
    """What it means that a judge had nothing to say of a node that was collected as a whole."""
    reasons = {tool: node.why_unread(tool) for tool in check.tools}
    if check.silence_passes and any(node.saw(tool) for tool in check.tools):
        return Verdict(Status.PASS, "node", f"{check.title}: nothing of it in what was read")
    why = "; ".join(f"{tool}: {' '.join(reason.split())}" for tool, reason in reasons.items() if reason)
    why = why or f"nothing was read of {', '.join(check.tools)}"
    return Verdict(Status.UNKNOWN, "node", f"not known whether this is so: {check.title} ({why})")


def _has(node: NodeFacts, need: Need) -> bool:
    if need is Need.RDMA:
        return not node.all(NoRdmaDevice)
    if need is Need.ROCE:
        known = [port for port in ports(node) if port.layer != "InfiniBand"]
        return not node.all(NoRdmaDevice) and (not ports(node) or any(not port.down for port in known))
    if need is Need.GPU:
        return bool(node.all(Gpu) or node.all(GpuProcess) or node.all(GpuPresent))
    if need is Need.DEPLOYMENT:
        return bool(node.all(SupervisedUnit))
    if need is Need.ENGINE:
        units = any(is_engine(unit.name) and unit.load != "not-found" for unit in node.all(Unit))
        return units or bool(node.all(SupervisedUnit))
    return bool(node.all(RepoScan) or node.all(NonAsciiByte) or node.all(YumWrapper))


def _settle(findings: Iterable[Finding]) -> list[Finding]:
    """One status for one subject of one check: of several, the worst speaks, with everyone's evidence."""
    settled: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.check, finding.topic, str(finding.subject))
        other = settled.get(key)
        if other is None:
            settled[key] = finding
            continue
        worst, rest = (finding, other) if finding.status.rank > other.status.rank else (other, finding)
        quotes = tuple(dict.fromkeys(worst.evidence + rest.evidence))[:8]
        settled[key] = replace(worst, evidence=quotes)
    return list(settled.values())


def _order(finding: Finding) -> tuple[int, int, str, str]:
    severity = _SEVERITIES.index(finding.severity)
    return (-finding.status.rank, -severity, finding.check, str(finding.subject))
