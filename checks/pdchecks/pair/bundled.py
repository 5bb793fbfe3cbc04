"""What the bundled engine makes of a configuration: the resolver of the engine `torch`.

Its options are the keys of its own configuration file, with dashes: `--dtype float32 --block-tokens 16`.
"""

from __future__ import annotations

from collections.abc import Iterator

from pdchecks.pair.command import DescriptionError, option_integer
from pdchecks.pair.fields import PairField
from pdchecks.pair.side import Resolved, Side
from pdchecks.pair.vllm_faults import side_fault
from pdchecks.unknown import Unknown
from pdwire import UNPACKED, ByteOrder, Conversion, DType, Layout, LocalProtocolError
from pdwire.kvmodel import KvModel, read_kv_model

DEFAULT_DTYPE = "float32"
DEFAULT_BLOCK_TOKENS = 16
"""Defaults of the engine's configuration model (pdserve.config); a test compares them."""

_LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")


def resolve_bundled(side: Side) -> Resolved:
    """Raises DescriptionError, or ConfigError of pdwire.kvmodel."""
    kv = read_kv_model(side.config)
    try:
        dtype = DType.from_label(side.options.get("dtype", DEFAULT_DTYPE))
    except LocalProtocolError as error:
        raise DescriptionError(f"--dtype: {error}") from None
    return Resolved(
        side=side,
        kv=kv,
        connector="pdctl",
        fields={
            "attention": kv.attention,
            "model_digest": side.weights,
            "tokenizer_digest": side.tokenizer,
            "rope": kv.rope,
            "layers": kv.layers,
            "kv_heads": kv.kv_heads,
            "head_dim": kv.head_dim,
            "dtype": dtype,
            "kv_scales": (),
            "tp_size": 1,
            "block_tokens": option_integer(side.options, "block-tokens", DEFAULT_BLOCK_TOKENS),
            "layout": Layout.TOKEN_MAJOR,
            "byte_order": ByteOrder.LITTLE,
            "isa_layout": UNPACKED,
            "engine": "torch",
            "engine_version": str(side.version) if not isinstance(side.version, Unknown) else side.version,
            "attention_backend": _backend(side),
            "capacity_tokens": Unknown("the engine sizes its cache when it starts"),
        },
        faults=tuple(_faults(side, kv)),
        can=frozenset({Conversion.DTYPE, Conversion.ROUNDING} if _rounds(side) else {Conversion.DTYPE}),
    )


def _rounds(side: Side) -> bool:
    """As pdserve.config: what loses nothing needs no leave."""
    text = side.options.get("kv-rounding", "false")
    if text not in ("true", "false"):
        raise DescriptionError(f"--kv-rounding must be true or false: {text!r}")
    return text == "true"


def _backend(side: Side) -> str | Unknown:
    if isinstance(side.gpu, Unknown):
        return side.gpu
    return "sdpa-cpu" if side.gpu.is_cpu else "sdpa-cuda"


def _faults(side: Side, kv: KvModel) -> Iterator[PairField]:
    """What the engine's loader refuses and the KV contract would not."""
    rope_type = str(kv.rope.get("rope_type"))
    fix = "serve this model with vLLM"
    if rope_type in _LENGTH_DEPENDENT_ROPE:
        reason = f"RoPE of type {rope_type} turns early tokens otherwise in a longer sequence"
        yield side_fault(side.role, "rope", rope_type, reason, fix)
    if side.config.get("attn_logit_softcapping") is not None:
        reason = "the bundled engine has no soft-capped attention"
        yield side_fault(side.role, "attention", "soft-capped logits", reason, fix)
