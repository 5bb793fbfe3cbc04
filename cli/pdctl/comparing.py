"""Two times of the same nodes: evidence in, what changed and what it broke out."""

from collections.abc import Sequence

from pdchecks.changes import Comparison, compare
from pdchecks.evidence import Evidence
from pdchecks.finding import Status
from pdchecks.nodefacts import gather
from pdchecks.run import diagnose
from pdctl.errors import UsageError
from pdctl.evidence_source import Source
from pdctl.exit_codes import ExitCode, worst
from pdctl.policy_source import policy_for
from pdctl.visit import Visit


def comparison(before: Source, after: Source, visit: Visit) -> Comparison:
    """Raises UsageError where the two have no node in common."""
    names = {one.node for one in before.evidence} & {one.node for one in after.evidence}
    if not names and not len(before.evidence) == len(after.evidence) == 1:
        raise UsageError(
            "the two sources have no node in common",
            detail=f"first: {_names(before.evidence)}\nsecond: {_names(after.evidence)}",
            hint="give two sources of the same nodes, or one node each",
        )
    # One policy for both times: what it expects is not what changed on the nodes.
    policy_of = policy_for(visit.hosts, visit.policy, after.policy or before.policy)
    found = [diagnose(source.evidence, policy_of, visit.checks) for source in (before, after)]
    then, now = ([gather(one) for one in source.evidence] for source in (before, after))
    return compare(then, now, *found)


def _names(evidence: Sequence[Evidence]) -> str:
    return ", ".join(one.node for one in evidence[:20]) or "none"


def exit_code(made: Comparison, before: Source, after: Source, fail_on: Status) -> ExitCode:
    """A new fault at or above `fail_on` counts; what merely changed does not."""
    codes = [ExitCode.INCOMPLETE] if before.incomplete or after.incomplete else []
    if any(finding.status.rank >= fail_on.rank for finding in made.appeared):
        codes.append(ExitCode.FINDINGS)
    return worst(codes)
