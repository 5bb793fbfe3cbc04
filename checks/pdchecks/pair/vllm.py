"""What vLLM makes of a configuration: the resolver of the engine `vllm`.

Options and defaults: vllm/engine/arg_utils.py and vllm/config/ of 0.33.0. What vLLM only finds out when it starts
(memory, the dtype inside weights) is Unknown, with the flag that pins it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pdchecks.pair.backends import BLOCK_OF_BACKEND, usable_backends
from pdchecks.pair.command import DescriptionError, Options, option_integer, option_json
from pdchecks.pair.side import Resolved, Side
from pdchecks.pair.vllm_faults import vllm_faults
from pdchecks.unknown import Unknown
from pdwire import UNPACKED, Attention, ByteOrder, DType, Layout
from pdwire.kvmodel import KvModel, read_kv_model

OWN_CONNECTOR = "PdctlConnector"


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSide(Resolved):
    """What NIXL's handshake and its checks look at, beside the record's fields.

    kv_dtype: the text of `--kv-cache-dtype` after vLLM resolved it, which is what is hashed. usable: attention
    backends this side could be told to use. transfer: the whole `--kv-transfer-config`.
    """

    dtype: str | Unknown
    kv_dtype: str
    tp_size: int
    pp_size: int
    block_tokens: int | Unknown
    backend: str | Unknown
    usable: tuple[str, ...] | Unknown
    hybrid_manager: str
    speculative: str
    transfer_mode: str
    cache_layout: str
    children: tuple[str, ...]
    transfer: Mapping[str, Any]

    @property
    def extra(self) -> Mapping[str, Any]:
        extra = self.transfer.get("kv_connector_extra_config")
        return extra if isinstance(extra, Mapping) else {}


def resolve_vllm(side: Side) -> VllmSide:
    """Raises DescriptionError, or ConfigError of pdwire.kvmodel."""
    options = side.options
    kv = read_kv_model(_overridden(side.config, options))
    transfer = option_json(options, "kv-transfer-config")
    connector, children = _connector(transfer)
    dtype = _dtype(side, kv)
    kv_dtype = _kv_dtype(options, kv)
    tp_size = option_integer(options, "tensor-parallel-size", 1)
    usable = usable_backends(kv.attention, kv_dtype, side.gpu, side.version)
    backend = _backend(side, usable)
    block_tokens = _block_tokens(side, kv, backend)
    return VllmSide(
        side=side,
        kv=kv,
        connector=connector,
        fields={
            "attention": kv.attention,
            "model_digest": side.weights,
            "tokenizer_digest": side.tokenizer,
            "rope": kv.rope,
            "layers": kv.layers,
            "kv_heads": kv.kv_heads,
            "head_dim": kv.head_dim,
            "dtype": _wire_dtype(dtype, kv_dtype),
            "kv_scales": _kv_scales(kv_dtype),
            "tp_size": tp_size,
            "block_tokens": block_tokens,
            "layout": Layout.TOKEN_MAJOR,
            "byte_order": ByteOrder.LITTLE,
            "isa_layout": UNPACKED if connector == "pdctl" else _isa(side),
            "engine": "vllm",
            "engine_version": str(side.version) if not isinstance(side.version, Unknown) else side.version,
            "attention_backend": backend,
            "capacity_tokens": _capacity(options, block_tokens),
        },
        faults=tuple(vllm_faults(side, kv, tp_size, usable, backend, kv_dtype)),
        dtype=dtype,
        kv_dtype=kv_dtype,
        tp_size=tp_size,
        pp_size=option_integer(options, "pipeline-parallel-size", 1),
        block_tokens=block_tokens,
        backend=backend,
        usable=usable,
        hybrid_manager="off" if options.get("disable-hybrid-kv-cache-manager") == "true" else "default",
        speculative=_speculative(options),
        transfer_mode="push" if "NixlPushConnector" in (connector, *children) else "pull",
        cache_layout=_cache_layout(side),
        children=children,
        transfer=transfer,
    )


def _overridden(config: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """config.json as `--hf-overrides`, `--rope-scaling` and `--rope-theta` change it."""
    changed = dict(config)
    overrides = option_json(options, "hf-overrides")
    inner = overrides.pop("text_config", None) if isinstance(overrides, dict) else None
    changed.update(overrides)
    if isinstance(inner, dict) and isinstance(changed.get("text_config"), Mapping):
        changed["text_config"] = {**changed["text_config"], **inner}
    if "rope-scaling" in options:
        changed["rope_scaling"] = dict(option_json(options, "rope-scaling"))
    if "rope-theta" in options:
        try:
            changed["rope_theta"] = float(options["rope-theta"])
        except ValueError:
            raise DescriptionError(f"--rope-theta must be a number: {options['rope-theta']!r}") from None
    return changed


def _connector(transfer: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The name, and those that a MultiConnector holds. Without any, `pdctl up` adds ours."""
    name = transfer.get("kv_connector")
    if name in (None, OWN_CONNECTOR):
        return "pdctl", ()
    extra = transfer.get("kv_connector_extra_config")
    inner = extra.get("connectors", []) if isinstance(extra, Mapping) else []
    children = [child.get("kv_connector") for child in inner if isinstance(child, Mapping)]
    return str(name), tuple(str(child) for child in children)


_DTYPES = {
    "half": "float16",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "float32": "float32",
}


def _dtype(side: Side, kv: KvModel) -> str | Unknown:
    asked = side.options.get("dtype", "auto")
    if asked != "auto":
        if asked not in _DTYPES:
            raise DescriptionError(f"--dtype must be auto or one of {', '.join(_DTYPES)}: {asked!r}")
        return _DTYPES[asked]
    if kv.dtype is None:
        return Unknown("config.json names no torch_dtype, so vLLM looks into the weights; `--dtype` says it")
    if kv.dtype == "float16":
        return "float16"
    if isinstance(side.gpu, Unknown):
        return side.gpu
    if side.gpu.is_cpu:
        return "bfloat16"
    capability = side.gpu.compute_capability
    if isinstance(capability, Unknown):
        return "bfloat16" if kv.dtype == "bfloat16" else capability
    # bfloat16 needs compute capability 8.0; float32 checkpoints are served in the same 16 bits (vllm/config/model.py).
    return "bfloat16" if capability >= (8, 0) else "float16"


def _kv_dtype(options: Options, kv: KvModel) -> str:
    asked = options.get("kv-cache-dtype", "auto")
    return "fp8" if asked == "auto" and kv.kv_cache_quantised else asked


_KV_DTYPES = {
    "fp8": DType.FLOAT8_E4M3FN,
    "fp8_e4m3": DType.FLOAT8_E4M3FN,
    "fp8_e5m2": DType.FLOAT8_E5M2,
    "bfloat16": DType.BFLOAT16,
    "float16": DType.FLOAT16,
}


def _wire_dtype(dtype: str | Unknown, kv_dtype: str) -> DType | Unknown:
    if kv_dtype == "auto":
        return dtype if isinstance(dtype, Unknown) else DType.from_label(dtype)
    return _KV_DTYPES.get(kv_dtype, Unknown(f"the KV contract has no dtype for `--kv-cache-dtype {kv_dtype}`"))


def _kv_scales(kv_dtype: str) -> object:
    if kv_dtype.startswith("fp8"):
        return Unknown("the scales of an fp8 cache are tensors of the checkpoint, which was not read")
    return ()


def _backend(side: Side, usable: tuple[str, ...] | Unknown) -> str | Unknown:
    config = option_json(side.options, "attention-config")
    named = side.options.get("attention-backend") or config.get("backend")
    if named is None and "VLLM_ATTENTION_BACKEND" in side.env:
        named = side.env["VLLM_ATTENTION_BACKEND"]
        if isinstance(side.version, Unknown) or side.version.since(0, 12):
            return Unknown("newer vLLM may not read VLLM_ATTENTION_BACKEND; `--attention-backend` says it")
    if named is not None:
        return str(named).upper().removesuffix("_VLLM_V1")
    if isinstance(usable, Unknown):
        return Unknown(f"{usable.reason}; `--attention-backend` says it")
    return usable[0] if usable else Unknown("no attention backend can serve this model on this GPU")


def _block_tokens(side: Side, kv: KvModel, backend: str | Unknown) -> int | Unknown:
    """16 on CUDA, 128 on a CPU, what the backend forces, or what was asked for."""
    asked = option_integer(side.options, "block-size", 0) if "block-size" in side.options else None
    if kv.attention is Attention.HYBRID:
        return Unknown("vLLM sizes the blocks of a hybrid model by its recurrent state; its start-up log says how")
    if kv.attention in (Attention.MLA, Attention.SPARSE_MLA):
        if isinstance(backend, Unknown):
            return backend
        forced = BLOCK_OF_BACKEND.get(backend)
        if forced is not None:
            return asked if asked is not None and asked % forced == 0 else forced
        if asked is None and backend != "TRITON_MLA":
            return Unknown(f"vLLM may raise the block size for {backend}; `--block-size` says it")
    if asked is not None:
        return asked
    if isinstance(side.gpu, Unknown):
        return Unknown(f"the default block size depends on the platform: {side.gpu.reason}")
    return 128 if side.gpu.is_cpu else 16


def _capacity(options: Options, block_tokens: int | Unknown) -> int | Unknown:
    if "num-gpu-blocks-override" not in options:
        return Unknown("vLLM measures its free memory when it starts")
    if isinstance(block_tokens, Unknown):
        return block_tokens
    return option_integer(options, "num-gpu-blocks-override", 1) * block_tokens


def _isa(side: Side) -> str | Unknown:
    if isinstance(side.gpu, Unknown):
        return side.gpu
    if not side.gpu.is_cpu:
        return UNPACKED
    if isinstance(side.isa, Unknown):
        return Unknown("vLLM packs a CPU cache for an instruction set, and which is not said (`isa: vec|amx|neon`)")
    return side.isa


_STATE_SPECULATORS = ("eagle", "mtp")
"""Methods whose configuration is hashed: those that hand hidden states on (`use_eagle()`)."""


def _speculative(options: Options) -> str:
    config = option_json(options, "speculative-config")
    method = str(config.get("method", ""))
    if not any(name in method for name in _STATE_SPECULATORS):
        return "none"
    hashed = ("method", "model", "revision", "parallel_drafting", "kv_cache_dtype")
    return json.dumps({key: config[key] for key in hashed if key in config}, sort_keys=True)


_LAYOUT_NAMES = {"HND": "LBHNC", "NHD": "LBNHC"}


def _cache_layout(side: Side) -> str:
    """NixlConnector asks for LBHNC (head-major blocks); the environment overrules it."""
    named = side.env.get("VLLM_KV_CACHE_LAYOUT", "LBHNC")
    return _LAYOUT_NAMES.get(named, named)
