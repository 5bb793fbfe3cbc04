"""Bandwidth between two nodes, measured because somebody asked for it."""

from collections.abc import Iterator
from dataclasses import replace

from pdchecks.active.marker import is_active
from pdchecks.check import NodeCheck, Verdict
from pdchecks.checks.perf_bandwidth import compared, largest
from pdchecks.evidence import words
from pdchecks.facts.perftest import PerftestRun
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_NOT_PROVED = (
    "It proves this rail in this direction, between two nodes, from host memory: not GPU memory, not many senders to one "
    "receiver, not equal path MTUs (perftest agrees on the smaller one first), nor that nothing is lost in an hour."
)
_REMEDY = Remedy("Look at the checks of link, GID, MTU and QoS of both nodes first: they say what the test fell over.")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for run in node.all(PerftestRun):
        if run.to and not run.by:
            yield _judge(node, run, policy.values.perf.bandwidth_share)
    for unread in node.unread:
        command = unread.quote.command
        if is_active(command) and "ib_write_bw" in words(command):
            subject = f"bandwidth to {words(command)[-1]}"
            yield Verdict(
                Status.UNKNOWN, subject, f"no bandwidth was measured: {unread.reason}", quotes=(unread.quote,)
            )


def _judge(node: NodeFacts, run: PerftestRun, share: float) -> Verdict:
    subject = f"bandwidth of {run.device} to {run.to}"
    verify = (f"{run.quote.command.split('   #')[0]}   # with the same on {run.to}, without the address",)
    best = largest(run)
    if best is None:
        why = run.failures[0] if run.failures else "it printed no figures"
        cause = "The two ends could not connect their queue pairs, or lost them."
        return Verdict(Status.FAIL, subject, f"{run.tool} failed: {why}", cause, (run.quote,), verify, _REMEDY)
    found = replace(compared(node, run, best, share), object=subject)
    return replace(found, cause=_NOT_PROVED) if found.status is Status.PASS else found


CHECK = NodeCheck(
    id="PD-PERF-002",
    topic="perf.bandwidth",
    title="Bandwidth between two nodes far below the link",
    severity=Severity.HIGH,
    tools=("ib_write_bw",),
    sources=("perftest src/perftest_parameters.c, src/perftest_communication.c",),
    on_demand=True,
    judge=judge,
)
