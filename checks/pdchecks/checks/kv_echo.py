"""A KV transfer between two nodes, made because somebody asked for it."""

from collections.abc import Iterator

from pdchecks.active.marker import is_active
from pdchecks.check import NodeCheck, Verdict
from pdchecks.evidence import words
from pdchecks.facts.kv import KvEcho
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_NOT_PROVED = (
    "It proves wire, transport and checksums over TCP in this direction: not RDMA, not that two engines' models fit "
    "(`pdctl pair check`), nor GPU memory at either end."
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for echo in node.all(KvEcho):
        if echo.by:
            continue
        subject = f"KV echo to {echo.to}" if echo.to else "KV echo"
        if not echo.failure:
            rate = f", {echo.size * 8e-9 / echo.seconds:.1f} Gb/s" if echo.seconds else ""
            summary = f"{echo.size} bytes of KV arrived, and every frame was verified{rate}"
            yield Verdict(Status.PASS, subject, summary, _NOT_PROVED, (echo.quote,))
            continue
        yield Verdict(
            Status.FAIL,
            subject,
            f"KV does not get there: {echo.failure}",
            "What stops these frames stops those of an engine: a firewall, a route, a path too narrow, or two versions of pdctl.",
            (echo.quote,),
            ("pdctl kv echo --listen ADDRESS --secret-stdin   # there, then `--to` what it prints, here",),
            Remedy("Open the way between the two addresses for TCP, and install one version of pdctl on both nodes."),
        )
    for unread in node.unread:
        command = unread.quote.command
        if is_active(command) and {"pdctl", "echo"} <= set(words(command)):
            subject = f"KV echo to {words(command)[-1]}"
            yield Verdict(Status.UNKNOWN, subject, f"no KV was sent: {unread.reason}", quotes=(unread.quote,))


CHECK = NodeCheck(
    id="PD-KV-003",
    topic="kv.handshake",
    title="KV does not get from one node to the other",
    severity=Severity.HIGH,
    tools=("pdctl",),
    sources=("pdctl docs/wire.md, docs/transports.md",),
    on_demand=True,
    judge=judge,
)
