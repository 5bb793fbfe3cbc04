"""Which attention backend vLLM picks when nobody says: by model, KV dtype and compute capability.

Read from `vllm/platforms/cuda.py` (`_get_backend_priorities`) and each backend's `supports_*` in vLLM 0.14 and 0.33,
which agree on what stands here. A case that was not read is Unknown; `--attention-backend` pins it.
"""

from __future__ import annotations

from pdchecks.pair.gpus import GpuChoice
from pdchecks.pair.version import Version
from pdchecks.unknown import Unknown
from pdwire import Attention

READ_SINCE = (0, 14)
READ_BEFORE = (0, 34)
SOURCE = "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/platforms/cuda.py"

HOPPER = (9, 0)
BLACKWELL = (10, 0)
AMPERE = (8, 0)


def usable_backends(
    attention: Attention, kv_dtype: str, gpu: GpuChoice | Unknown, version: Version | Unknown
) -> tuple[str, ...] | Unknown:
    """Best first; empty when this GPU can serve the model with none. kv_dtype: `--kv-cache-dtype`, resolved."""
    if isinstance(gpu, Unknown):
        return gpu
    if gpu.is_cpu:
        return ("CPU_ATTN",)
    capability = gpu.compute_capability
    if isinstance(capability, Unknown):
        return Unknown(f"vLLM's choice of attention backend is known here for CUDA only: {capability.reason}")
    quantised = kv_dtype.startswith("fp8")
    plain = attention in (Attention.DENSE, Attention.SLIDING_WINDOW) and not quantised and kv_dtype != "nvfp4"
    if plain and AMPERE <= capability < BLACKWELL and not isinstance(version, Unknown) and version.since(0, 9):
        return ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN")
    if isinstance(version, Unknown):
        return version
    if version.before(*READ_SINCE) or version.since(*READ_BEFORE):
        return Unknown(f"the backend table was read from vLLM 0.14 to 0.33, not from {version}")
    if capability < AMPERE:
        return Unknown("the backend table has no row below compute capability 8.0")
    if attention is Attention.SPARSE_MLA:
        return ("FLASHMLA_SPARSE",) if capability >= HOPPER else ()
    if attention is Attention.MLA:
        return _mla(quantised, capability)
    if kv_dtype == "nvfp4":
        return ("FLASHINFER",) if capability >= HOPPER else ()
    if attention is Attention.SINKS:
        if capability >= BLACKWELL:
            return Unknown("the backend table has no row for attention sinks on compute capability 10 and above")
        return ("FLASH_ATTN", "TRITON_ATTN") if capability >= HOPPER else ("TRITON_ATTN",)
    if BLACKWELL <= capability < (11, 0):
        return ("FLASHINFER", "FLASH_ATTN", "TRITON_ATTN")
    if quantised and capability != HOPPER:
        # FP8 KV in FLASH_ATTN needs FlashAttention 3, which is for compute capability 9.0.
        return ("FLASHINFER", "TRITON_ATTN")
    return ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN")


def _mla(quantised: bool, capability: tuple[int, int]) -> tuple[str, ...] | Unknown:
    if capability < HOPPER:
        return ("TRITON_MLA",)
    if capability == HOPPER:
        return ("FLASHMLA", "TRITON_MLA") if quantised else ("FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA")
    if BLACKWELL <= capability < (11, 0):
        return ("FLASHINFER_MLA", "CUTLASS_MLA", "TRITON_MLA")
    return Unknown("the backend table has no row for MLA on this compute capability")


BLOCK_OF_BACKEND = {"FLASHMLA": 64, "FLASHMLA_SPARSE": 64, "FLASHINFER_MLA": 64, "CUTLASS_MLA": 128}
"""Block sizes that vLLM forces for a backend (`check_and_update_config`)."""


def common_backend(prefill: tuple[str, ...] | Unknown, decode: tuple[str, ...] | Unknown) -> str | None:
    """The one that both can use and that costs the two the fewest places in their order.

    In a tie FLASHINFER: FLASH_ATTN is another kernel, with another page size for some heads, on every generation.
    """
    if isinstance(prefill, Unknown) or isinstance(decode, Unknown):
        return None
    both = [name for name in decode if name in prefill]
    return min(both, key=lambda name: (prefill.index(name) + decode.index(name), name != "FLASHINFER"), default=None)
