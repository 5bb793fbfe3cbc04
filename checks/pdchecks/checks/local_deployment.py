"""A deployment on the node itself: its processes by the supervisor's word, and whether the canary still gets its answer."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.deployment import Canary, LiveProcesses, SupervisedUnit
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.units import MANY_RESTARTS
from pdchecks.unknown import known

_RUNNING = ("ready", "starting", "not-answering")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    lists = [pids for fact in node.all(LiveProcesses) if (pids := known(fact.pids)) is not None]
    live = frozenset().union(*lists) if lists else None
    for unit in node.all(SupervisedUnit):
        yield _unit(unit, live)
    for canary in node.all(Canary):
        yield _canary(canary)


def _unit(unit: SupervisedUnit, live: frozenset[int] | None) -> Verdict:
    subject, quotes = f"{unit.deployment} {unit.role}", (unit.quote,)
    verify = ("pdctl status", f"pdctl logs {unit.role}")
    why = f": {unit.reason}" if unit.reason else ""
    again = Remedy(
        "Read its log for the reason, then bring the deployment up again.",
        commands=(f"pdctl logs {unit.role}", "pdctl down", "pdctl up"),
        impact=Impact.RESTART_ENGINE,
    )
    if unit.state in ("failed", "backing-off"):
        return Verdict(
            Status.FAIL,
            subject,
            f"{unit.role} is {unit.state} after {unit.restarts} restarts{why}",
            "The process ended with an error; the supervisor starts it again with growing pauses, and in the end gives up.",
            quotes,
            verify,
            again,
        )
    if unit.state == "not-answering" and (live is None or unit.pid in live):
        return Verdict(
            Status.FAIL,
            subject,
            f"{unit.role} is there and does not answer{why}",
            "The process is stopped (SIGSTOP, a debugger, a cgroup freezer) or gets no processor time; its router leaves it "
            "alone, and the supervisor starts it again before long.",
            quotes,
            (*verify, f"ps -o pid,stat,wchan:20,cmd {unit.pid}"),
            again,
        )
    if unit.state in _RUNNING and unit.pid and live is not None and unit.pid not in live:
        return Verdict(
            Status.FAIL,
            subject,
            f"{unit.role} is said to be {unit.state}, and its process {unit.pid} is gone",
            "The supervisor ended without a word, and its processes with it: what it wrote last is no longer true.",
            quotes,
            verify,
            again,
        )
    if unit.state == "ready" and unit.restarts >= MANY_RESTARTS:
        return Verdict(
            Status.WARN,
            subject,
            f"{unit.role} is ready and was restarted {unit.restarts} times{why}",
            "It runs now, but ends again and again; each end aborts the requests in it.",
            quotes,
            verify,
            again,
        )
    status = Status.PASS if unit.state == "ready" else Status.INFO
    return Verdict(
        status, subject, f"{unit.role} is {unit.state or 'in a state that was not written'}{why}", quotes=quotes
    )


def _canary(canary: Canary) -> Verdict:
    subject, quotes = f"{canary.deployment} canary", (canary.quote,)
    if canary.passed:
        return Verdict(Status.PASS, subject, "the canary got the answer that is known", quotes=quotes)
    why = f": {canary.reason}" if canary.reason else ""
    if canary.wrong:
        return Verdict(
            Status.FAIL,
            subject,
            f"the canary got a wrong answer{why}",
            "Every process is up and what they compute together is wrong: KV is altered or misread between the two.",
            quotes,
            ("pdctl status", "pdctl logs decode"),
            Remedy(
                "Take no traffic until it passes: compare both engines' versions, model and dtype, then restart them.",
                commands=("pdctl down", "pdctl up"),
                impact=Impact.RESTART_ENGINE,
            ),
        )
    return Verdict(
        Status.WARN,
        subject,
        f"the canary got no answer{why}",
        "An engine or the router did not answer within its time.",
        quotes,
        ("pdctl status", "pdctl logs router"),
        Remedy("Read the logs of the one that did not answer.", commands=("pdctl logs router", "pdctl logs decode")),
    )


CHECK = NodeCheck(
    id="PD-SVC-003",
    topic="service.engine",
    title="Engine of a local deployment is not ready",
    severity=Severity.CRITICAL,
    tools=("status.json",),
    sources=("pdctl.supervisor/1, the status that the supervisor writes",),
    need=Need.DEPLOYMENT,
    judge=judge,
)
