"""One resource limit against a floor: the same words whichever resource it is."""

from collections.abc import Callable

from pdchecks.check import Verdict
from pdchecks.evidence import Quote
from pdchecks.facts.host import Limit
from pdchecks.finding import Remedy, Status


def judge_limit(
    limit: Limit,
    floor: int | None,
    shown: Callable[[int | None], str],
    *,
    cause: str,
    verify: tuple[str, ...],
    remedy: Remedy,
    below: Status,
    also: tuple[Quote, ...] = (),
) -> Verdict:
    """floor: None for unlimited. below: the status where a process cannot get the floor; where it can raise its own soft
    limit to it, a warning. also: what else was seen of it.
    """
    subject = f"{limit.name} of {limit.scope}"
    if _reaches(limit.soft, floor):
        return Verdict(Status.PASS, subject, f"{subject} is {shown(limit.soft)}", quotes=(limit.quote,))
    hard = "" if limit.hard == limit.soft else f" (hard limit {shown(limit.hard)})"
    return Verdict(
        Status.WARN if _reaches(limit.hard, floor) else below,
        subject,
        f"{subject} is {shown(limit.soft)}{hard}; the policy wants {shown(floor)}",
        cause,
        (limit.quote, *also),
        verify,
        remedy,
    )


def _reaches(value: int | None, floor: int | None) -> bool:
    return value is None or (floor is not None and value >= floor)
