"""KV transfers that fail, KV that arrives damaged or is never fetched, and prompts that decode computes itself for that."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.serving import Engine, engines

_VERIFY = (
    "curl -s http://HOST:PORT/metrics | grep -E 'transfer|checksum|recomputed|expired'",
    "pdctl doctor --pair PREFILL DECODE",
)
_REMEDY = Remedy(
    "Read the engine's log for the reason of the last failed transfer, then look at the way between the two nodes.",
    commands=("pdctl logs decode", "pdctl doctor --pair PREFILL DECODE", "pdctl kv echo --to ADDRESS"),
)
_DAMAGED = Remedy(
    "Take the path out of service until it is found: send KV over another NIC or from another node, and see with which part "
    "the damage goes.",
    commands=(
        "ethtool -S NETDEV | grep -iE 'crc|err'",
        "dmesg | grep -iE 'AER|EDAC|Xid'",
        "pdctl kv echo --to ADDRESS",
    ),
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for engine in engines(node):
        yield from _damaged(engine)
        yield from _share(engine, policy, "transfers_failed", "transfers", "KV transfers failed")
        yield from _share(engine, policy, "kv_expired", "requests", "requests' KV expired before decode came for it")
        yield from _share(engine, policy, "recomputed", "requests", "prompts were computed by decode itself")


def _damaged(engine: Engine) -> Iterator[Verdict]:
    (damaged,) = engine.counts("checksum_failures")
    if damaged:
        yield Verdict(
            Status.FAIL,
            f"{engine.last.name} checksums",
            f"{damaged:.0f} KV frames arrived with other bytes than were sent",
            "TCP and the link have checksums of their own and let this pass: memory, a NIC or its offload, or a card on the way "
            "alters data. Our engines refuse such frames; others would answer from them.",
            engine.last.quotes("checksum_failures"),
            _VERIFY,
            _DAMAGED,
        )


_CAUSES = {
    "transfers_failed": "Each costs a request its wait, and then its KV once more or its answer: a peer that restarts, a path "
    "that loses packets, or memory that was let go before it was read.",
    "kv_expired": "Prefill computed it, kept its blocks for the whole timeout, and threw it away: decode is down, full, or does "
    "not get through to prefill.",
    "recomputed": "The router found no prefill that answered, or its transfer broke off. Answers come, late, and decode's other "
    "requests wait meanwhile.",
}


def _share(engine: Engine, policy: Policy, bad: str, all_of: str, words: str) -> Iterator[Verdict]:
    if bad not in engine.last.values:
        return
    serving, subject = policy.values.serving, f"{engine.last.name} {bad.replace('_', ' ')}"
    quotes = engine.last.quotes(bad, all_of)
    failed, whole = engine.counts(bad, all_of)
    # What transfers count are those that ended well; requests count all.
    total = whole + failed if all_of == "transfers" else max(whole, failed)
    if all_of not in engine.last.values and failed:
        yield Verdict(
            Status.WARN,
            subject,
            f"{failed:.0f} {words}; of how many is not printed",
            _CAUSES[bad],
            quotes,
            _VERIFY,
            _REMEDY,
        )
        return
    if not total:
        return
    share, said = failed / total, f"{failed:.0f} of {total:.0f} {words}"
    if share < serving.failed_warn:
        yield Verdict(Status.PASS, subject, said, quotes=quotes)
        return
    fails = share >= serving.failed_fail and total >= serving.at_least
    status = Status.FAIL if fails else Status.WARN
    yield Verdict(status, subject, f"{said} ({share:.1%})", _CAUSES[bad], quotes, _VERIFY, _REMEDY)


CHECK = NodeCheck(
    id="PD-KV-005",
    topic="kv.transfer",
    title="KV transfers fail",
    severity=Severity.HIGH,
    tools=("/metrics",),
    sources=(
        "pdserve, the metrics",
        "https://docs.vllm.ai/en/latest/usage/metrics/",
        "https://docs.sglang.io/references/production_metrics.html",
    ),
    on_demand=True,
    judge=judge,
)
