"""What a check is: an ID, a topic and a pure function from facts and policy to verdicts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pdchecks.evidence import Quote
from pdchecks.finding import Finding, Remedy, Severity, Status, Subject
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


class Need(StrEnum):
    """What a node must have for a check to mean anything on it."""

    RDMA = "an RDMA device"
    ROCE = "an Ethernet port with RDMA that is up"
    GPU = "an NVIDIA GPU"
    YUM = "yum or dnf"
    ENGINE = "a unit of an engine"
    DEPLOYMENT = "a deployment of its own"


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


def mild(verdict: Verdict, reason: str) -> Verdict:
    """The same on a node where it does no harm: a warning or failure becomes information, and says for what reason."""
    if verdict.status in (Status.PASS, Status.UNKNOWN):
        return verdict
    return replace(verdict, status=Status.INFO, summary=f"{verdict.summary}, {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """id: PD-<AREA>-<NNN>, never reused. title: the fault in a few words. sources: where its knowledge comes from.

    tools: whose output it reads; when a collector's whole run leaves the judge without a word, the runner says unknown
    and why these gave nothing. silence_passes: the judge speaks only of events, so that a log without any is a pass.
    on_demand: it reads runs and logs of programs that no collector holds, so that silence means nothing at all.
    """

    id: str
    topic: str
    title: str
    severity: Severity
    tools: tuple[str, ...]
    sources: tuple[str, ...]
    need: Need | None = None
    silence_passes: bool = False
    on_demand: bool = False

    @property
    def module(self) -> str:
        """Name of the module that holds it; its document lies beside."""
        raise NotImplementedError


NodeJudge = Callable[[NodeFacts, Policy], Iterable[Verdict]]
FleetJudge = Callable[[Sequence[tuple[NodeFacts, Policy]]], Iterable[Verdict]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheck(Check):
    """Judges one node by itself."""

    judge: NodeJudge

    @property
    def module(self) -> str:
        return self.judge.__module__


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCheck(Check):
    """Judges nodes against each other; never asked about fewer than two."""

    judge: FleetJudge

    @property
    def module(self) -> str:
        return self.judge.__module__


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
