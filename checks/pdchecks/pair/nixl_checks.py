"""What vLLM's NixlConnector compares, or trips over, after the hashes have agreed.

Read from `_validate_remote_agent_handshake` of vLLM 0.33.0; where older versions differ, the rule says since when.
"""

from __future__ import annotations

from collections.abc import Iterator

from pdchecks.pair.fields import ISSUE, PULL, PairField, PairOutcome, field, unknown_field
from pdchecks.pair.nixl import HASHED_SINCE, NOT_HASHED_BEFORE
from pdchecks.pair.vllm import VllmSide
from pdchecks.unknown import Unknown
from pdwire import Attention

CHECKS = (
    "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py"
)


def run_time_fields(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    """What is compared, or goes wrong, after the hashes have agreed."""
    yield from _tp_size(prefill, decode)
    yield from _pp_size(prefill, decode)
    yield from _block_size(prefill, decode)
    yield from _cache_layout(prefill, decode)


_GROUPED = (Attention.SLIDING_WINDOW, Attention.CHUNKED, Attention.SINKS, Attention.HYBRID)
"""Models for which the hybrid KV cache manager keeps more than one kind of block."""


def _tp_size(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    """vLLM's tp_ratio: decode's over prefill's, or the inverse where prefill has more ranks."""
    ours, theirs = prefill.tp_size, decode.tp_size
    name, kv = "tp_size", decode.kv
    one_size = f"start both with one tensor-parallel size: `--tensor-parallel-size {theirs}` or `{ours}`"

    def line(outcome: PairOutcome, reason: str, fix: str = "", *sources: str) -> PairField:
        return field(name, ours, theirs, outcome, reason, fix, *sources)

    if ours == theirs:
        yield line(PairOutcome.EQUAL, "")
    elif max(ours, theirs) % min(ours, theirs):
        yield line(PairOutcome.FATAL, "NIXL splits or joins whole ranks: one size must divide the other", one_size)
    elif kv.attention is Attention.HYBRID:
        reason = "recurrent state is not resharded, and each rank sizes its blocks by its own share of heads"
        yield line(PairOutcome.FATAL, reason, one_size, f"{ISSUE}42895")
    elif kv.family.startswith("gemma"):
        reason = "Gemma has been reported to fail with two tensor-parallel sizes; other windowed models work"
        yield line(PairOutcome.FATAL, reason, one_size, f"{ISSUE}37333", f"{ISSUE}50765")
    elif kv.attention in (Attention.MLA, Attention.SPARSE_MLA):
        yield line(PairOutcome.CONVERTIBLE, "every rank holds the whole latent cache; one is read")
    elif prefill.kv_dtype == "nvfp4":
        yield line(PairOutcome.FATAL, "an NVFP4 cache cannot be resharded", one_size)
    elif ours > theirs:
        yield _more_prefill_ranks(prefill, decode, one_size)
    else:
        yield _more_decode_ranks(prefill, decode, one_size)


def _more_prefill_ranks(prefill: VllmSide, decode: VllmSide, one_size: str) -> PairField:
    ours, theirs, version = prefill.tp_size, decode.tp_size, decode.side.version
    if isinstance(version, Unknown):
        return unknown_field("tp_size", ours, version)
    if version.before(*NOT_HASHED_BEFORE):
        reason = "this version asserts that decode has at least prefill's tensor-parallel size"
        return field("tp_size", ours, theirs, PairOutcome.FATAL, reason, one_size, f"{ISSUE}43523", f"{PULL}27274")
    if version.before(*HASHED_SINCE):
        return unknown_field("tp_size", ours, Unknown(f"whether vLLM {version} joins more prefill ranks was not read"))
    if prefill.kv.kv_heads < ours:
        reason = f"prefill holds {prefill.kv.kv_heads} KV heads on {ours} ranks, and replicas are not joined"
        fix = f"start prefill with `--tensor-parallel-size {min(prefill.kv.kv_heads, theirs)}`, or both with one size"
        return field("tp_size", ours, theirs, PairOutcome.FATAL, reason, fix, CHECKS)
    return field("tp_size", ours, theirs, PairOutcome.CONVERTIBLE, "each decode rank reads from several prefill ranks")


def _more_decode_ranks(prefill: VllmSide, decode: VllmSide, one_size: str) -> PairField:
    ours, theirs, version = prefill.tp_size, decode.tp_size, decode.side.version
    heads = prefill.kv.kv_heads
    if theirs > heads:
        if isinstance(version, Unknown):
            return unknown_field("tp_size", ours, version)
        if version.before(0, 22):
            reason = f"{heads} KV heads are replicated on {theirs} decode ranks, and the handshake expects them split"
            sources = (f"{ISSUE}45330", f"{PULL}45879")
            return field("tp_size", ours, theirs, PairOutcome.FATAL, reason, one_size, *sources)
        if version.before(0, 24):
            return unknown_field(
                "tp_size", ours, Unknown(f"whether vLLM {version} has the fix of pull 45879 was not read")
            )
    return field("tp_size", ours, theirs, PairOutcome.CONVERTIBLE, "several decode ranks read from one prefill rank")


def _pp_size(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    ours, theirs = prefill.pp_size, decode.pp_size
    if ours == theirs == 1:
        return
    unread = Unknown("what NIXL does with pipeline parallelism was not read for this version")
    yield unknown_field("pp_size", ours, unread) if ours != theirs else unknown_field("pp_size", unread, unread)


def _block_size(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    ours, theirs, version = prefill.block_tokens, decode.block_tokens, decode.side.version
    if isinstance(ours, Unknown) or isinstance(theirs, Unknown):
        yield unknown_field("block_tokens", ours, theirs)
        return
    one_size = f"`--block-size {max(ours, theirs)}` on both"

    def line(outcome: PairOutcome, reason: str, fix: str = "", *sources: str) -> PairField:
        return field("block_tokens", ours, theirs, outcome, reason, fix, *sources)

    if ours == theirs:
        yield line(PairOutcome.EQUAL, "")
    elif decode.kv.attention in _GROUPED and decode.hybrid_manager != "off":
        yield line(PairOutcome.FATAL, "with the hybrid KV cache manager both need one block size", one_size)
    elif isinstance(version, Unknown):
        yield unknown_field("block_tokens", ours, version)
    elif version.before(*NOT_HASHED_BEFORE):
        reason = "this version asserts that both block sizes are equal"
        yield line(PairOutcome.FATAL, reason, one_size, f"{ISSUE}26744", f"{PULL}26759")
    elif ours > theirs:
        reason = "prefill's blocks must not be larger than decode's"
        yield line(PairOutcome.FATAL, reason, f"`--block-size {theirs}` on prefill, or {one_size}", f"{PULL}30448")
    elif theirs % ours:
        yield line(PairOutcome.FATAL, "decode's block size must be a multiple of prefill's", one_size)
    else:
        yield line(PairOutcome.CONVERTIBLE, f"{theirs // ours} blocks of prefill become one of decode")


def _cache_layout(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    ours, theirs = prefill.cache_layout, decode.cache_layout
    if decode.kv.attention in (Attention.MLA, Attention.SPARSE_MLA):
        ours = theirs = "the only one of MLA"
    if ours == theirs:
        yield field("cache_layout", ours, theirs, PairOutcome.EQUAL, "")
        return
    permutes = decode.transfer.get("enable_permute_local_kv") is True
    if permutes and ours == "LBHNC" and decode.hybrid_manager == "off":
        yield field("cache_layout", ours, theirs, PairOutcome.CONVERTIBLE, "decode permutes what it has received")
        return
    needs = " and `--disable-hybrid-kv-cache-manager`" if permutes else ""
    reason = f"the two caches are laid out differently{': permuting needs' + needs[4:] if needs else ''}"
    fix = "unset VLLM_KV_CACHE_LAYOUT on both: NixlConnector then asks for LBHNC itself"
    yield field("cache_layout", ours, theirs, PairOutcome.FATAL, reason, fix, f"{PULL}30275")
