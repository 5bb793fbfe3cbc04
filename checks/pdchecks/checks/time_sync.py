"""The clock: whether somebody keeps it right."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.converge import converge
from pdchecks.facts.host import ClockSync
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known

# chrony steps a clock that is further off at its start; chrony.conf of the distributions, makestep 1.0 3.
_STEP_S = 1.0
_CAUSE = (
    "Deadlines that a request carries, credentials that expire and the order of two nodes' log lines need equal clocks."
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    clocks = node.all(ClockSync)
    if not clocks:
        return
    # chronyc asks the daemon; timedatectl repeats a flag of the kernel, which chrony does not set in every configuration.
    clock = next((fact for fact in clocks if fact.by == "chronyc"), clocks[0])
    quotes = tuple(fact.quote for fact in clocks)
    offset = next((value for fact in clocks if (value := known(fact.offset_s)) is not None), 0.0)
    if offset > _STEP_S:
        yield Verdict(
            Status.WARN,
            "clock",
            f"the clock is {offset:g} s from its source ({clock.by})",
            _CAUSE,
            quotes,
            ("chronyc tracking", "chronyc sources -v"),
            Remedy(
                "Step it once; see why it drifted: a suspended machine, or a source that jumps.",
                commands=("chronyc makestep",),
            ),
        )
        return
    if clock.synchronised or any(fact.synchronised for fact in clocks):
        yield Verdict(Status.PASS, "clock", f"the clock is synchronised ({clock.by})", quotes=quotes)
        return
    yield Verdict(
        Status.WARN,
        "clock",
        f"the clock is not synchronised ({clock.by})",
        _CAUSE,
        quotes,
        ("timedatectl", "chronyc tracking"),
        converge(
            "time",
            "Run a time service, and see that it reaches a server.",
            "timedatectl set-ntp true",
            "chronyc sources",
        ),
    )


CHECK = NodeCheck(
    id="PD-TIME-001",
    topic="time.sync",
    title="Clock is not synchronised",
    severity=Severity.MEDIUM,
    tools=("timedatectl", "chronyc"),
    sources=("timedatectl(1), NTPSynchronized", "chronyc(1), tracking"),
    judge=judge,
)
