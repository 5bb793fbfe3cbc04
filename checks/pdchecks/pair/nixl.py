"""Would the two ends of vLLM's NixlConnector agree at their handshake? The factors of its hash.

Read from `compute_nixl_compatibility_hash` of vLLM 0.33.0. The hash names the model by the text of its path; weights,
tokenizer, RoPE and KV scales are not in it, so two engines that differ in those accept each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pdchecks.pair.backends import SOURCE as BACKENDS
from pdchecks.pair.backends import common_backend
from pdchecks.pair.fields import Notice, PairField, PairOutcome, field, show, unknown_field
from pdchecks.pair.vllm import VllmSide
from pdchecks.unknown import Unknown

HASH = "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py"
HASHED_SINCE = (0, 14)
"""The first version whose hash was read. Before it, only the attention backend was asserted to be equal."""
NOT_HASHED_BEFORE = (0, 12)

CONNECTOR_VERSIONS = {(0, 14): 2, (0, 19): 2, (0, 24): 4, (0, 29): 9, (0, 33): 15}
"""NIXL_CONNECTOR_VERSION by vLLM minor release, of those that were read."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One value in the hash. fix: what makes it equal, from the two sides."""

    name: str
    value: Callable[[VllmSide], object]
    reason: str
    fix: Callable[[VllmSide, VllmSide], str]


def hash_fields(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    """One line for each factor; those that the model decides (KV heads, head size, layers) are the contract's lines."""
    for factor in FACTORS:
        ours, theirs = factor.value(prefill), factor.value(decode)
        if factor is CONNECTOR_VERSION and (prefill.side.version == decode.side.version or _unread(ours, theirs)):
            continue  # one vLLM has one; of two, the version itself is said already
        name = f"vllm.{factor.name}"
        if isinstance(ours, Unknown) or isinstance(theirs, Unknown):
            yield unknown_field(name, ours, theirs)
        elif ours == theirs:
            yield field(name, ours, theirs, PairOutcome.EQUAL)
        else:
            yield _differs(name, factor, prefill, decode)


def _differs(name: str, factor: Factor, prefill: VllmSide, decode: VllmSide) -> PairField:
    ours, theirs = show(factor.value(prefill)), show(factor.value(decode))
    notice = hash_notice(prefill, decode, factor.name)
    if notice is not Notice.REFUSED and factor.name == "model":
        reason = "the path's text is not compared here; whether it is the same model is asked above"
        return field(name, ours, theirs, PairOutcome.CONVERTIBLE, reason)
    sources = (BACKENDS, HASH) if factor.name == "attention_backend" else (HASH,)
    fix = factor.fix(prefill, decode)
    return field(name, ours, theirs, PairOutcome.FATAL, factor.reason, fix, *sources, notice=notice)


def hash_notice(prefill: VllmSide, decode: VllmSide, factor: str) -> Notice:
    """What vLLM does when this factor differs: decode compares the hashes, unless it is told not to or is too old."""
    version = decode.side.version
    if decode.extra.get("enforce_handshake_compat") is False:
        return Notice.SILENT
    if isinstance(version, Unknown):
        return Notice.NONE
    if version.since(*HASHED_SINCE):
        return Notice.REFUSED
    if version.before(*NOT_HASHED_BEFORE):
        return Notice.FAILS if factor == "attention_backend" else Notice.SILENT
    return Notice.NONE


def _option(name: str, of: Callable[[VllmSide], object]) -> Callable[[VllmSide, VllmSide], str]:
    return lambda prefill, decode: (
        f"start prefill with `--{name} {show(of(decode))}`, or decode with `--{name} {show(of(prefill))}`"
    )


def _say(text: str) -> Callable[[VllmSide, VllmSide], str]:
    return lambda prefill, decode: text


def _pin_backend(prefill: VllmSide, decode: VllmSide) -> str:
    common = common_backend(prefill.usable, decode.usable)
    if common is None:
        return "no attention backend is known to serve this model on both: use GPUs of one kind"
    quantised = prefill.kv_dtype.startswith("fp8") or decode.kv_dtype.startswith("fp8")
    version = decode.side.version
    if not isinstance(version, Unknown) and version.before(*NOT_HASHED_BEFORE):
        return f"VLLM_ATTENTION_BACKEND={common} in the environment of both"
    otherwise = ", or an unquantised KV dtype (`--kv-cache-dtype auto`) on both" if quantised else ""
    return f"`--attention-backend {common}` on both{otherwise}"


def connector_version(side: VllmSide) -> object:
    if isinstance(side.side.version, Unknown):
        return side.side.version
    release = side.side.version.release
    return CONNECTOR_VERSIONS.get(
        release[:2], Unknown(f"NIXL_CONNECTOR_VERSION of vLLM {side.side.version} was not read")
    )


def _version(side: VllmSide) -> object:
    return side.side.version if isinstance(side.side.version, Unknown) else side.side.version.text


def _unread(*values: object) -> bool:
    return any(isinstance(value, Unknown) for value in values)


_ONE_VERSION = "install one vLLM version on both; upgrade prefill and decode together, never one after the other"

CONNECTOR_VERSION = Factor(
    "nixl_connector_version", connector_version, "the connector's own protocol changed in between", _say(_ONE_VERSION)
)

FACTORS: tuple[Factor, ...] = (
    Factor(
        "version",
        _version,
        "any difference in the vLLM version changes the handshake hash, and with it may change the cache's layout",
        _say(_ONE_VERSION),
    ),
    CONNECTOR_VERSION,
    Factor(
        "model",
        lambda side: side.side.model,
        "the handshake hashes the text of the model's path or name, not the model",
        _say("serve it from one path on both (a mount or a symbolic link), or set `enforce_handshake_compat: false`"),
    ),
    Factor("dtype", lambda side: side.dtype, "another compute dtype", _option("dtype", lambda side: side.dtype)),
    Factor(
        "kv_cache_dtype",
        lambda side: side.kv_dtype,
        "the text of the KV dtype is hashed, so also two names of one dtype differ",
        _option("kv-cache-dtype", lambda side: side.kv_dtype),
    ),
    Factor(
        "attention_backend",
        lambda side: side.backend,
        "the two would use different attention backends, whose caches are laid out differently",
        _pin_backend,
    ),
    Factor(
        "hybrid_kv_cache_manager",
        lambda side: side.hybrid_manager,
        "with the hybrid KV cache manager blocks are grouped otherwise",
        _say("give `--disable-hybrid-kv-cache-manager` to both or to none"),
    ),
    Factor(
        "speculative_config",
        lambda side: side.speculative,
        "the drafter's state is part of what moves",
        _say("give both the same `--speculative-config`"),
    ),
    Factor(
        "transfer_mode",
        lambda side: side.transfer_mode,
        "one side writes into its peer and the other reads from it: both would wait",
        _say("name the same connector on both, NixlConnector or NixlPushConnector"),
    ),
)
