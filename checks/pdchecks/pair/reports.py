"""What users reported of configurations that every rule lets pass, or that no rule but a report explains.

One function for each; the list of them is at the end. Each stands on the report it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pdchecks.pair.fields import ISSUE, PULL, Notice, PairField, PairOutcome, field
from pdchecks.pair.vllm import VllmSide
from pdchecks.pair.vllm_faults import side_fault
from pdchecks.unknown import Unknown
from pdwire import Role, Side

NIXL_ISSUE = "https://github.com/ai-dynamo/nixl/issues/"
LMCACHE_ISSUE = "https://github.com/LMCache/LMCache/issues/"


def _side_channel(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    """Decode asks the host that prefill advertised; unset, that is decode's own host."""
    ours, theirs = prefill.side.host, decode.side.host
    if isinstance(ours, Unknown) or isinstance(theirs, Unknown) or ours == theirs:
        return
    advertised = prefill.side.env.get("VLLM_NIXL_SIDE_CHANNEL_HOST", "localhost")
    if advertised in ("localhost", "127.0.0.1", "::1", "0.0.0.0"):
        yield field(
            "side_channel_host",
            advertised,
            f"on {theirs}",
            PairOutcome.FATAL,
            "decode would look for prefill on its own host, log an unknown engine id and compute the prompt again",
            f"set VLLM_NIXL_SIDE_CHANNEL_HOST on prefill to an address of {ours} that {theirs} can reach",
            f"{ISSUE}27083",
            side=Side.PREFILL,
            notice=Notice.SILENT,
        )


def _expandable_segments(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    """vLLM refuses it since pull 41237 (between 0.19 and 0.21), and under torch's older name only."""
    for one in (prefill, decode):
        version = one.side.version
        asks = not isinstance(version, Unknown) and version.since(0, 21)
        for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            if "expandable_segments:True" in one.side.env.get(name, "").replace(" ", ""):
                yield side_fault(
                    one.side.role,
                    "allocator",
                    f"{name}={one.side.env[name]}",
                    "the allocator moves memory that NIXL has registered: refused, corrupt, or far slower",
                    f"unset expandable_segments in {name}",
                    f"{PULL}41237",
                    f"{NIXL_ISSUE}1754",
                    notice=Notice.REFUSED if asks and name == "PYTORCH_CUDA_ALLOC_CONF" else Notice.FAILS,
                )


def _roles(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    for one, wrong in ((prefill, "kv_consumer"), (decode, "kv_producer")):
        if one.transfer.get("kv_role") == wrong:
            right = "kv_producer" if one.side.role is Role.PREFILL else "kv_consumer"
            reason = f"the {one.side.role} side cannot be a {wrong.removeprefix('kv_')}"
            yield side_fault(one.side.role, "kv_role", wrong, reason, f'`"kv_role": "{right}"` or `"kv_both"`')


def _removed_connector(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    for one in (prefill, decode):
        version = one.side.version
        if one.connector == "P2pNcclConnector" and not isinstance(version, Unknown) and version.since(0, 24):
            yield side_fault(
                one.side.role,
                "connector",
                one.connector,
                f"vLLM {version} no longer has it; tutorials still name it",
                "use NixlConnector",
                f"{PULL}44854",
            )


def _num_blocks(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    """0.9.1 asserts `self.num_blocks >= nixl_agent_meta.num_blocks` on decode."""
    version = decode.side.version
    if isinstance(version, Unknown) or version.since(0, 9, 2):
        return
    if prefill.tp_size != decode.tp_size or prefill.side.gpu != decode.side.gpu:
        yield field(
            "num_blocks",
            f"TP {prefill.tp_size} on {prefill.side.gpu}",
            f"TP {decode.tp_size} on {decode.side.gpu}",
            PairOutcome.FATAL,
            "this version asserts that decode has at least as many blocks as prefill, and unequal sides seldom do",
            "upgrade vLLM, or give both one `--num-gpu-blocks-override`",
            f"{ISSUE}19338",
        )


def _multi_connector(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    for one in (prefill, decode):
        if len(one.children) > 1:
            yield field(
                f"{one.side.role}.connector",
                *(_cells(one, " + ".join(one.children))),
                PairOutcome.WARN,
                "MultiConnector has crashed, hung and returned nothing with several children; which version is safe is"
                " not known",
                "move KV with NixlConnector alone, and add a second connector only after a soak test",
                f"{ISSUE}20609",
                f"{ISSUE}39500",
                f"{ISSUE}52170",
                f"{ISSUE}53049",
            )


def _packed_layout(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    for one in (prefill, decode):
        version = one.side.version
        uses = "LMCacheConnectorV1" in (one.connector, *one.children)
        if uses and not isinstance(version, Unknown) and version.since(0, 26):
            yield field(
                f"{one.side.role}.connector",
                *_cells(one, f"LMCacheConnectorV1 on vLLM {version}"),
                PairOutcome.FATAL,
                "since 0.26 vLLM packs K and V of a head into one row; LMCache's in-process path reads it as before",
                "use LMCacheMPConnector (not with hybrid models), or an LMCache that supports the packed layout",
                f"{LMCACHE_ISSUE}4463",
                side=Side.PREFILL if one is prefill else Side.DECODE,
                notice=Notice.SILENT,
            )


def _stale_agent(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    for one in (prefill, decode):
        nixl = one.side.nixl
        if not isinstance(nixl, Unknown) and not nixl.since(1, 3, 3):
            yield field(
                f"{one.side.role}.nixl",
                *_cells(one, str(nixl)),
                PairOutcome.WARN,
                "with this NIXL the peer of a side that restarts on the same address crashes or hangs",
                "install a newer NIXL (the fix is after 1.3.2), or restart both sides together",
                f"{ISSUE}49238",
                f"{NIXL_ISSUE}1986",
            )


def _run_time_scales(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    flags = ["calculate-kv-scales" in one.side.options for one in (prefill, decode)]
    if any(flags):
        yield field(
            "kv_scales",
            "measured at run time" if flags[0] else "of the checkpoint",
            "measured at run time" if flags[1] else "of the checkpoint",
            PairOutcome.FATAL,
            "scales that one side measures on its own first request are not sent with the cache",
            "drop `--calculate-kv-scales`; use a checkpoint that brings its scales, or an unquantised KV dtype",
            side=Side.BOTH if all(flags) else Side.PREFILL if flags[0] else Side.DECODE,
            notice=Notice.SILENT,
        )


_NOT_HASHED = ("quantization", "lora-modules", "enable-lora")


def _not_hashed(prefill: VllmSide, decode: VllmSide) -> Iterator[PairField]:
    """Options that change K and V and that no engine compares."""
    for name in _NOT_HASHED:
        ours, theirs = prefill.side.options.get(name, "none"), decode.side.options.get(name, "none")
        if ours != theirs:
            yield field(
                name,
                ours,
                theirs,
                PairOutcome.FATAL,
                "K and V are computed with other weights than decode goes on with, and nothing compares it",
                f"give both the same `--{name}`",
                notice=Notice.SILENT,
            )


def _cells(one: VllmSide, value: str) -> tuple[str, str]:
    return (value, "") if one.side.role is Role.PREFILL else ("", value)


Report = Callable[[VllmSide, VllmSide], Iterator[PairField]]

REPORTS: tuple[Report, ...] = (
    _removed_connector,
    _roles,
    _multi_connector,
    _packed_layout,
    _run_time_scales,
    _not_hashed,
)
"""Of any pair of vLLM engines."""

NIXL_REPORTS: tuple[Report, ...] = (_side_channel, _expandable_segments, _num_blocks, _stale_agent)
"""Of pairs that NIXL joins."""
