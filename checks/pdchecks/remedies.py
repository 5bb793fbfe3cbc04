"""Which roles mend which findings on which nodes. Pure; nothing is run here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pdchecks.finding import Finding, Impact, Subject


@dataclass(frozen=True, slots=True)
class Batch:
    """Nodes that need the same roles. findings: what these mend. impact: the gravest of their remedies."""

    tags: tuple[str, ...]
    nodes: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def impact(self) -> Impact:
        order = tuple(Impact)
        remedies = (finding.remedy for finding in self.findings)
        return max((remedy.impact for remedy in remedies if remedy), key=order.index, default=Impact.NONE)


@dataclass(frozen=True, slots=True)
class Plan:
    """by_hand: faults that no role of ours mends. refused: those whose remedy would disturb a node that serves."""

    batches: tuple[Batch, ...]
    by_hand: tuple[Finding, ...]
    refused: tuple[Finding, ...]


def plan(findings: Iterable[Finding], serving: Iterable[str] = ()) -> Plan:
    """For every fault that is not waived. serving: nodes on which an engine is active and must not be disturbed."""
    busy = set(serving)
    by_node: dict[str, list[Finding]] = {}
    by_hand: list[Finding] = []
    refused: list[Finding] = []
    for finding in findings:
        if not finding.fault:
            continue
        remedy = finding.remedy
        if remedy is None or remedy.role is None:
            by_hand.append(finding)
        elif remedy.impact is not Impact.NONE and finding.subject.node in busy:
            refused.append(finding)
        else:
            by_node.setdefault(finding.subject.node, []).append(finding)
    return Plan(_batches(by_node), tuple(by_hand), tuple(refused))


def _batches(by_node: Mapping[str, Sequence[Finding]]) -> tuple[Batch, ...]:
    nodes: dict[tuple[str, ...], list[str]] = {}
    for node, findings in by_node.items():
        nodes.setdefault(tuple(sorted({tag for finding in findings for tag in _tags(finding)})), []).append(node)
    return tuple(
        Batch(tags, tuple(members), tuple(finding for node in members for finding in by_node[node]))
        for tags, members in nodes.items()
    )


def _tags(finding: Finding) -> tuple[str, ...]:
    remedy = finding.remedy
    return () if remedy is None or remedy.role is None else remedy.tags or (remedy.role,)


@dataclass(frozen=True, slots=True)
class Moved:
    """Faults before and after: mended, still there (as seen after), and new."""

    mended: tuple[Finding, ...]
    left: tuple[Finding, ...]
    new: tuple[Finding, ...]


def moved(before: Sequence[Finding], after: Sequence[Finding]) -> Moved:
    """By check and subject. A fault that could not be judged again counts as still there, as it was seen before."""
    was = {_key(finding): finding for finding in before if finding.fault}
    now = {_key(finding): finding for finding in after if finding.fault}
    nodes = {finding.subject.node for finding in after}
    unseen = {key for key, finding in was.items() if key not in now and finding.subject.node not in nodes}
    return Moved(
        tuple(finding for key, finding in was.items() if key not in now and key not in unseen),
        tuple(finding for key, finding in now.items() if key in was) + tuple(was[key] for key in was if key in unseen),
        tuple(finding for key, finding in now.items() if key not in was),
    )


def _key(finding: Finding) -> tuple[str, Subject]:
    return (finding.check, finding.subject)
