"""Two times of the same nodes: evidence in, what changed and what it broke out."""

from collections.abc import Callable, Sequence

from pdchecks.changes import Comparison, compare
from pdchecks.check import Check
from pdchecks.evidence import Evidence
from pdchecks.finding import Status
from pdchecks.nodefacts import gather
from pdchecks.policy import Policy
from pdchecks.run import diagnose
from pdctl.errors import UsageError
from pdctl.exit_codes import ExitCode


def comparison(
    before: Sequence[Evidence],
    after: Sequence[Evidence],
    policy_of: Callable[[str], Policy],
    checks: Sequence[Check],
) -> Comparison:
    """Raises UsageError where the two have no node in common."""
    names = {one.node for one in before} & {one.node for one in after}
    if not names and not len(before) == len(after) == 1:
        raise UsageError(
            "the two sources have no node in common",
            detail=f"first: {_names(before)}\nsecond: {_names(after)}",
            hint="give two sources of the same nodes, or one node each",
        )
    found = [diagnose(evidence, policy_of, checks) for evidence in (before, after)]
    return compare([gather(one) for one in before], [gather(one) for one in after], *found)


def _names(evidence: Sequence[Evidence]) -> str:
    return ", ".join(one.node for one in evidence[:20])


def exit_code(made: Comparison, fail_on: Status) -> ExitCode:
    """A new fault at or above `fail_on` counts; what merely changed does not."""
    worse = any(finding.status.rank >= fail_on.rank for finding in made.appeared)
    return ExitCode.FINDINGS if worse else ExitCode.DONE
