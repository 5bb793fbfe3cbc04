"""What a check is: an ID, a topic and a pure function from facts and policy to verdicts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pdchecks.evidence import Quote
from pdchecks.finding import Finding, Remedy, Severity, Status, Subject
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


class Need(StrEnum):
    """Hardware or software without which a check has nothing to say about a node."""

    RDMA = "an RDMA device"
    GPU = "an NVIDIA GPU"
    YUM = "yum or dnf"
    SYSTEMD = "systemd"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says of one object. The runner adds the check's own fields and the node.

    node and peer: only of a fleet check, which sees several nodes.
    """

    status: Status
    object: str
    summary: str
    cause: str = ""
    quotes: tuple[Quote, ...] = ()
    verify: tuple[str, ...] = ()
    remedy: Remedy | None = None
    node: str | None = None
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """id: PD-<AREA>-<NNN>, never reused. title: the fault in a few words. sources: where its knowledge comes from.

    looks_for: what must be among the evidence for the check to say anything (for a live node without it, the runner says
    unknown).
    """

    id: str
    topic: str
    title: str
    severity: Severity
    sources: tuple[str, ...]
    looks_for: str
    need: Need | None = None


NodeJudge = Callable[[NodeFacts, Policy], Iterable[Verdict]]
FleetJudge = Callable[[Sequence[tuple[NodeFacts, Policy]]], Iterable[Verdict]]


@dataclass(frozen=True, slots=True)
class NodeCheck(Check):
    """Judges one node by itself."""

    judge: NodeJudge = lambda node, policy: ()


@dataclass(frozen=True, slots=True)
class FleetCheck(Check):
    """Judges nodes against each other; never asked about fewer than two."""

    judge: FleetJudge = lambda nodes: ()


def stamp(check: Check, verdict: Verdict, node: str) -> Finding:
    """The finding that a verdict becomes."""
    return Finding(
        check=check.id,
        topic=check.topic,
        status=verdict.status,
        severity=check.severity,
        subject=Subject(verdict.node or node, verdict.object, verdict.peer),
        summary=verdict.summary,
        cause=verdict.cause,
        evidence=verdict.quotes[:8],
        verify=verdict.verify,
        remedy=verdict.remedy,
        sources=check.sources,
    )
