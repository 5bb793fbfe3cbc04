"""Groups findings under their root causes, the most likely first. Pure: findings in, order out."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pdchecks.explains import EXPLAINS, Edge
from pdchecks.finding import Finding, Severity, Status, Subject

_SEVERITIES = tuple(Severity)
# How tools name RDMA devices: mlx5_0, mlx5_bond_0, bnxt_re1, irdma0.
_DEVICE = re.compile(r"\b(?:mlx\d_(?:bond_)?|bnxt_re|irdma|rocep\w*?f|hns_|ionic_|efa_|rxe_?|siw_?)\d{1,3}\b")

# A slot on PCI as lspci, the kernel and nvidia-smi (whose domain has eight digits) write it; functions of one card share it.
_SLOT = re.compile(r"\b(?:0000)?(?P<slot>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Group:
    """A finding and those that it explains. why: how its own cause brings it about; empty for a root."""

    finding: Finding
    why: str
    explained: tuple["Group", ...]

    @property
    def size(self) -> int:
        return 1 + sum(group.size for group in self.explained)

    @property
    def worst(self) -> Status:
        return max((self.finding.status, *(group.worst for group in self.explained)), key=lambda status: status.rank)


def rank(findings: Sequence[Finding], first: Mapping[str, int] | None = None) -> list[Group]:
    """The root causes of all findings, each with what it explains: one tree a root, every finding once.

    first: places by check ID that come before every other order (those of a symptom's causes, likeliest 0). Else worst
    first, then what explains most, then the costlier, then in the order of `findings`.
    """
    faults = _Faults(findings)
    causes = {index: cause for index, finding in enumerate(findings) if (cause := faults.behind(finding)) is not None}
    children: dict[int, list[int]] = {}
    for child, (parent, _) in causes.items():
        children.setdefault(parent, []).append(child)

    def tree(index: int) -> Group:
        why = causes[index][1] if index in causes else ""
        return Group(findings[index], why, tuple(map(tree, children.get(index, ()))))

    roots = [tree(index) for index in range(len(findings)) if index not in causes]
    return sorted(roots, key=lambda group: _place(group, first or {}))


class _Faults:
    """Findings that can be the cause of others, by check and node."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._findings = findings
        self._at: dict[str, dict[str, list[int]]] = {}
        for index, finding in enumerate(findings):
            if finding.fault:
                for node in _nodes(finding.subject):
                    self._at.setdefault(finding.check, {}).setdefault(node, []).append(index)

    def behind(self, effect: Finding) -> tuple[int, str] | None:
        """Position of the finding that explains this one, and how; None for a root."""
        if effect.waived is not None or effect.status not in (Status.WARN, Status.FAIL, Status.UNKNOWN):
            return None
        for edge in EXPLAINS:
            if edge.effect == effect.check and edge.cause in self._at and _fits(edge, effect):
                for position in self._candidates(edge, effect):
                    if _may_share_a_device(self._findings[position], effect):
                        return position, edge.why
        return None

    def _candidates(self, edge: Edge, effect: Finding) -> Iterator[int]:
        """On the effect's own node first."""
        by_node = self._at[edge.cause]
        for node in _nodes(effect.subject):
            yield from by_node.get(node, ())
        if edge.fabric:
            yield from next(iter(by_node.values()))


def _fits(edge: Edge, effect: Finding) -> bool:
    if effect.status is Status.UNKNOWN and not edge.blinds:
        return False
    return not edge.words or any(word in effect.summary for word in edge.words)


def _may_share_a_device(cause: Finding, effect: Finding) -> bool:
    """Two devices of one node are strangers to each other."""
    if cause.subject.node != effect.subject.node:
        return True
    return all(_agree(pattern, cause, effect) for pattern in (_DEVICE, _SLOT))


def _agree(pattern: re.Pattern[str], cause: Finding, effect: Finding) -> bool:
    named = [set(pattern.findall(finding.subject.object.lower())) for finding in (cause, effect)]
    return not all(named) or bool(named[0] & named[1])


def _nodes(subject: Subject) -> set[str]:
    return {subject.node} | ({subject.peer} if subject.peer else set())


def _place(group: Group, first: Mapping[str, int]) -> tuple[int, int, int, int]:
    finding = group.finding
    place = min((first[check] for check in _checks(group) if check in first), default=len(first))
    if not finding.fault and finding.status is not Status.UNKNOWN:
        place = len(first)
    waived = finding.waived is not None
    worst = Status.PASS.rank if waived else group.worst.rank
    return (place, -worst, -group.size, -_SEVERITIES.index(finding.severity))


def _checks(group: Group) -> set[str]:
    return {group.finding.check}.union(*(_checks(below) for below in group.explained))
