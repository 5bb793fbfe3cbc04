"""Prefill and decode that refused each other: engines' own words about the field that differs."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.log import HandshakeAccepted, HandshakeRefused
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_VERIFY = ("pdctl doctor --pair PREFILL DECODE", "journalctl -u 'pdctl-*' | grep -E 'incompatible|mismatch'")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    said = [fact for fact in node.facts if isinstance(fact, HandshakeAccepted | HandshakeRefused)]
    if said and isinstance(last := said[-1], HandshakeAccepted):
        before = sum(isinstance(fact, HandshakeRefused) for fact in said)
        earlier = f", after {before} refusals" if before else ""
        yield Verdict(Status.PASS, "handshake", f"the engines fit{earlier}: {last.words}", quotes=(last.quote,))
        return
    for refused in node.all(HandshakeRefused):
        pair = f"{refused.words}: " if " -> " in refused.words else ""
        if not refused.field or refused.field == "compatibility hash":
            yield _opaque(refused)
            continue
        yield Verdict(
            Status.FAIL,
            f"{pair}{refused.field}",
            f"prefill and decode differ in {refused.field}: prefill {refused.prefill}, decode {refused.decode}",
            "The KV that one computes means nothing to the other, so the handshake refused the pair before any "
            "request.",
            (refused.quote,),
            _VERIFY,
            Remedy(
                f"Start both with one {refused.field}; the engine's line names the flag.", impact=Impact.RESTART_ENGINE
            ),
        )


def _opaque(refused: HandshakeRefused) -> Verdict:
    values = f": remote {refused.prefill}, local {refused.decode}" if refused.prefill or refused.decode else ""
    said = f": {refused.words[:160]}" if refused.words and not refused.field else ""
    return Verdict(
        Status.FAIL,
        "compatibility hash" if refused.field else "handshake",
        f"the engines' handshake failed{values or said}",
        "vLLM folds version, model, dtype, KV heads, cache dtype, layout and attention backend into one hash and "
        "does not say which differs. Two kinds of GPU may choose two attention backends by themselves."
        if refused.field
        else "The engine does not say why in this line. Sides of two versions, tensor-parallel sizes or block sizes, a "
        "side channel that is not reached, and a prefill that restarted since all end so; its traceback tells more.",
        (refused.quote,),
        ("pdctl doctor --pair PREFILL DECODE", "grep -E 'Using .* backend|kv_cache_dtype|vLLM API server version' LOG"),
        Remedy(
            "Compare version, --dtype, --kv-cache-dtype, --block-size and VLLM_ATTENTION_BACKEND of both; set "
            "the same. "
            "Switching the check off (enforce_handshake_compat) trades a clear error for garbage.",
            impact=Impact.RESTART_ENGINE,
        ),
    )


CHECK = NodeCheck(
    id="PD-KV-001",
    topic="kv.handshake",
    title="Prefill and decode refuse each other",
    severity=Severity.CRITICAL,
    tools=("journalctl", "tail"),
    sources=("pdwire, the compatibility verdict", "https://github.com/vllm-project/vllm/pull/29503"),
    need=Need.ENGINE,
    silence_passes=True,
    judge=judge,
)
