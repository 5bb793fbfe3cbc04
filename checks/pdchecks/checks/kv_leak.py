"""KV that stays held when no request needs it any more: by the ledger's leases, or by blocks in use where nothing is in work."""

from collections.abc import Collection, Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.engine import LedgerHold, LedgerRead
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.serving import Engine, engines

_REMEDY = Remedy(
    "Restart the engine that holds it: that frees its KV and ends the requests in it. Keep the ledger and the log of the "
    "named requests first.",
    commands=("pdctl kv ledger -o json > ledger.json", "pdctl logs decode", "pdctl down", "pdctl up"),
    impact=Impact.RESTART_ENGINE,
)
_VERIFY = (
    "pdctl kv ledger",
    "curl -s http://HOST:PORT/metrics | grep -E 'kv_blocks|kv_cache_usage|requests_(running|waiting)'",
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    yield from _ledgers(node, policy)
    every = engines(node)
    routers = [one for one in every if one.last.unit == "router"]
    idle_router = routers[0] if routers and all(one.value("running") == 0 for one in routers) else None
    for engine in every:
        if engine.value("kv_usage") is not None and engine.last.program in ("pdserve", "vllm"):
            router = idle_router if engine.last.program == "pdserve" else None
            yield from _blocks(engine, router, policy)


def _ledgers(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    grace = policy.values.serving.lease_grace_s
    for read, held in _last_readings(node):
        subject = f"{read.role} {read.engine}".strip()
        over = [one for one in held if one.left_s is not None and one.left_s < -grace]
        if not over:
            what = f"{read.requests} requests, each within its lease" if read.requests else "nothing"
            yield Verdict(Status.PASS, subject, f"its ledger holds {what}", quotes=(read.quote,))
            continue
        longest = min(over, key=lambda one: one.left_s or 0)
        yield Verdict(
            Status.FAIL,
            subject,
            f"KV of {len(over)} requests, {sum(one.kv_bytes for one in over)} bytes, is held {-(longest.left_s or 0):.0f} s "
            f"after its lease ended ({longest.state})",
            "Every hold ends with its request's deadline at the latest. What stays longer is never freed, and each "
            "takes blocks from the requests to come.",
            tuple(one.quote for one in over),
            _VERIFY,
            _REMEDY,
        )


def _last_readings(node: NodeFacts) -> Collection[tuple[LedgerRead, list[LedgerHold]]]:
    """Of each engine the last reading of its ledger, and what it held then."""
    last: dict[tuple[str, str], tuple[LedgerRead, list[LedgerHold]]] = {}
    for fact in node.facts:
        if isinstance(fact, LedgerRead):
            last[fact.role, fact.engine] = (fact, [])
        elif isinstance(fact, LedgerHold):
            last[fact.role, fact.engine][1].append(fact)
    return last.values()


def _blocks(engine: Engine, router: Engine | None, policy: Policy) -> Iterator[Verdict]:
    usage, last = engine.value("kv_usage") or 0.0, engine.last
    subject, quotes = last.name, last.quotes("running", "waiting", "kv_usage", "blocks", "blocks_free")
    # Our cache says how many blocks are held; of a share alone the engine's own block has to be left out.
    floor = 0.0 if "blocks" in last.values else policy.values.serving.idle_kv
    if engine.value("running") is None:
        return
    if not engine.idle or usage <= floor:
        work = "no request is in work and no KV is held" if engine.idle else "requests are in work"
        yield Verdict(
            Status.PASS if engine.idle else Status.INFO,
            subject,
            f"{usage:.1%} of its KV is in use: {work}",
            quotes=quotes,
        )
        return
    summary = f"{usage:.1%} of its KV is held and no request runs or waits"
    still = engine.before is not None and engine.before.values == last.values
    if not still and (router is None or engine.before is not None):
        yield Verdict(
            Status.INFO,
            subject,
            f"{summary}, at one moment",
            "KV on its way between prefill and decode looks so too. A second reading a minute later tells them apart.",
            quotes,
            _VERIFY,
        )
        return
    how = f", and {router.last.name} has none in work" if router else ", and nothing moved between two readings"
    yield Verdict(
        Status.WARN,
        subject,
        summary + how,
        "KV was taken for requests that are over, or whose other side never came for it, and was not given back. vLLM's "
        "prefill keeps it until VLLM_NIXL_ABORT_REQUEST_TIMEOUT; ours until the request's deadline.",
        quotes + (router.last.quotes("running") if router else ()),
        _VERIFY,
        _REMEDY,
    )


CHECK = NodeCheck(
    id="PD-KV-004",
    topic="kv.leak",
    title="KV is held for no request",
    severity=Severity.HIGH,
    tools=("/metrics", "/v1/ledger"),
    sources=(
        "pdserve, the ledger: every hold has what ends it",
        "https://docs.vllm.ai/en/latest/usage/metrics/",
        "https://docs.vllm.ai/en/latest/features/nixl_connector_usage/",
    ),
    on_demand=True,
    judge=judge,
)
