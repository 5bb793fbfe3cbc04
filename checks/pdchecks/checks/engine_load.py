"""Which pool holds the others up: requests that wait for KV blocks, for computing, or for the other side's KV."""

from collections.abc import Iterator, Sequence

from pdchecks.check import NodeCheck, Verdict
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.serving import Engine, engines

_VERIFY = (
    "curl -s http://HOST:PORT/metrics | grep -E 'requests_(running|waiting)|cache_usage|preemptions|queue|_reqs|usage'",
)
_MORE_KV = Remedy(
    "Give this pool more KV: more engines in it, a larger share of GPU memory, a KV type of fewer bytes, or a lower limit on "
    "running requests so that those admitted are not thrown out.",
    commands=("vllm serve ... --gpu-memory-utilization SHARE --kv-cache-dtype fp8 --max-num-seqs COUNT",),
    impact=Impact.RESTART_ENGINE,
)
_MORE_ENGINES = Remedy(
    "Move an engine from the pool that idles into this one, or add one; look for a slow GPU first.",
    commands=("pdctl status", "pdctl doctor"),
    impact=Impact.RESTART_ENGINE,
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    every = engines(node)
    for engine in every:
        if engine.last.unit == "router":
            continue
        if (
            engine.value("running") is not None
            and engine.value("waiting") is not None
            and engine.value("kv_usage") is not None
        ):
            yield _queue(engine, every, policy)
        yield from _preempted(engine, policy)
        yield from _waited(engine, policy)


def _queue(engine: Engine, every: Sequence[Engine], policy: Policy) -> Verdict:
    serving, last = policy.values.serving, engine.last
    running, waiting, usage = (engine.value(field) or 0.0 for field in ("running", "waiting", "kv_usage"))
    quotes = last.quotes("running", "waiting", "deferred", "kv_usage", "blocks", "blocks_free")
    others = [one.last.name for one in every if one is not engine and one.last.unit != "router" and one.idle]
    idle = f", while {', '.join(others[:3])} idles" if others else ""
    said = f"{waiting:.0f} requests wait, {running:.0f} run, {usage:.0%} of KV is in use"
    if waiting and usage >= serving.kv_full:
        cause = (
            "There is no room for the KV of another request: this pool's memory is the bottleneck, not its computing."
        )
        return Verdict(Status.WARN, last.name, said + idle, cause, quotes, _VERIFY, _MORE_KV)
    if waiting < serving.queue_ratio * max(running, 1):
        return Verdict(Status.PASS, last.name, said, quotes=quotes)
    if waiting < serving.at_least:
        return Verdict(Status.INFO, last.name, f"{said}, at one moment", quotes=quotes)
    if (engine.value("deferred") or 0) * 2 > waiting:
        cause = "Most wait for KV from the other side: the bottleneck is prefill, or the transfer."
        return Verdict(Status.WARN, last.name, said + idle, cause, quotes, _VERIFY, _MORE_ENGINES)
    cause = "KV has room, so they wait for their turn to be computed: this pool is too small for its load."
    if others:
        cause += " The pool that idles has engines to spare, or gets nothing because this one is its source."
    return Verdict(Status.WARN, last.name, said + idle, cause, quotes, _VERIFY, _MORE_ENGINES)


def _preempted(engine: Engine, policy: Policy) -> Iterator[Verdict]:
    if "preemptions" not in engine.last.values or not engine.value("requests"):
        return
    preempted, requests = engine.counts("preemptions", "requests")
    subject, quotes = f"{engine.last.name} preemptions", engine.last.quotes("preemptions", "requests", "kv_usage")
    said = f"{preempted:.0f} preemptions for {requests:.0f} requests answered"
    if preempted <= policy.values.serving.preempted * requests:
        yield Verdict(Status.PASS, subject, said, quotes=quotes)
        return
    cause = "Requests are admitted whose KV does not fit to the end: their blocks are taken away, and all is computed once more."
    yield Verdict(Status.WARN, subject, said, cause, quotes, _VERIFY, _MORE_KV)


def _waited(engine: Engine, policy: Policy) -> Iterator[Verdict]:
    if not {"queue_s", "compute_s", "prompts"} <= engine.last.values.keys():
        return
    waited, computed, prompts = engine.counts("queue_s", "compute_s", "prompts")
    # On decode the wait is that for prefill's KV, and there is next to nothing to compute.
    if prompts < policy.values.serving.at_least or _decodes(engine):
        return
    subject, quotes = f"{engine.last.name} prompts", engine.last.quotes("queue_s", "compute_s", "prompts")
    said = f"{prompts:.0f} prompts waited {waited / prompts:.2f} s each and were computed in {computed / prompts:.2f} s"
    serving = policy.values.serving
    if waited < serving.queue_ratio * computed or waited < serving.queue_s * prompts:
        yield Verdict(Status.PASS, subject, said, quotes=quotes)
        return
    cause = (
        "The first token comes late for waiting, not for computing: prompts arrive faster than this pool computes them."
    )
    yield Verdict(Status.WARN, subject, said, cause, quotes, _VERIFY, _MORE_ENGINES)


def _decodes(engine: Engine) -> bool:
    fetched = engine.value("fetched") or (engine.last.program == "vllm" and engine.value("transfers"))
    return bool(fetched)


CHECK = NodeCheck(
    id="PD-SVC-004",
    topic="engine.load",
    title="A pool is too small for its load",
    severity=Severity.MEDIUM,
    tools=("/metrics",),
    sources=(
        "pdserve, the metrics",
        "https://docs.vllm.ai/en/latest/usage/metrics/",
        "https://docs.vllm.ai/en/latest/configuration/optimization/",
    ),
    on_demand=True,
    judge=judge,
)
