"""How vLLM arrives at one value each: dtype, KV dtype, attention backend, block size.

Defaults and rules: vllm/config/ and vllm/platforms/ of 0.33.0. What vLLM only finds out when it starts (memory, the dtype
inside weights) is Unknown, with the flag that pins it.
"""

from __future__ import annotations

from pdchecks.pair.backends import BLOCK_OF_BACKEND
from pdchecks.pair.command import DescriptionError, Options, option_integer, option_json
from pdchecks.pair.side import Side
from pdchecks.unknown import Unknown
from pdwire import UNPACKED, Attention, DType
from pdwire.kvmodel import KvModel

_DTYPES = {
    "half": "float16",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "float32": "float32",
}


def dtype(side: Side, kv: KvModel) -> str | Unknown:
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


def kv_dtype(options: Options, kv: KvModel) -> str:
    asked = options.get("kv-cache-dtype", "auto")
    return "fp8" if asked == "auto" and kv.kv_cache_quantised else asked


_KV_DTYPES = {
    "fp8": DType.FLOAT8_E4M3FN,
    "fp8_e4m3": DType.FLOAT8_E4M3FN,
    "fp8_e5m2": DType.FLOAT8_E5M2,
    "bfloat16": DType.BFLOAT16,
    "float16": DType.FLOAT16,
}


def wire_dtype(dtype: str | Unknown, kv_dtype: str) -> DType | Unknown:
    if kv_dtype == "auto":
        return dtype if isinstance(dtype, Unknown) else DType.from_label(dtype)
    return _KV_DTYPES.get(kv_dtype, Unknown(f"the KV contract has no dtype for `--kv-cache-dtype {kv_dtype}`"))


def kv_scales(kv_dtype: str) -> object:
    if kv_dtype.startswith("fp8"):
        return Unknown("the scales of an fp8 cache are tensors of the checkpoint, which was not read")
    return ()


def backend(side: Side, usable: tuple[str, ...] | Unknown) -> str | Unknown:
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


def block_tokens(side: Side, kv: KvModel, backend: str | Unknown) -> int | Unknown:
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


def capacity(options: Options, block_tokens: int | Unknown) -> int | Unknown:
    if "num-gpu-blocks-override" not in options:
        return Unknown("vLLM measures its free memory when it starts")
    if isinstance(block_tokens, Unknown):
        return block_tokens
    return option_integer(options, "num-gpu-blocks-override", 1) * block_tokens


def isa(side: Side) -> str | Unknown:
    if isinstance(side.gpu, Unknown):
        return side.gpu
    if not side.gpu.is_cpu:
        return UNPACKED
    if isinstance(side.isa, Unknown):
        return Unknown("vLLM packs a CPU cache for an instruction set, and which is not said (`isa: vec|amx|neon`)")
    return side.isa
