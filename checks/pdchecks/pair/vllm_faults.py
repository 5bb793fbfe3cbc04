"""Why vLLM would not start, or not serve as one end of a pair, on one side alone."""

from __future__ import annotations

from collections.abc import Iterator

from pdchecks.pair.backends import SOURCE
from pdchecks.pair.fields import Notice, PairField, PairOutcome, field
from pdchecks.pair.side import Side
from pdchecks.unknown import Unknown
from pdwire import Role
from pdwire import Side as Which
from pdwire.kvmodel import KvModel


def side_fault(
    role: Role, name: str, value: str, reason: str, fix: str, *sources: str, notice: Notice = Notice.REFUSED
) -> PairField:
    """A line that concerns one side only; the other cell is empty."""
    which = Which.PREFILL if role is Role.PREFILL else Which.DECODE
    cells = (value, "") if role is Role.PREFILL else ("", value)
    return field(f"{role}.{name}", *cells, PairOutcome.FATAL, reason, fix, *sources, side=which, notice=notice)


_JUDGED = frozenset(
    {
        "CUTLASS_MLA",
        "FLASHINFER",
        "FLASHINFER_MLA",
        "FLASHMLA",
        "FLASHMLA_SPARSE",
        "FLASH_ATTN",
        "FLASH_ATTN_MLA",
        "TRITON_MLA",
    }
)
"""Backends of which the table says where they serve; another name may serve anywhere."""


def vllm_faults(
    side: Side, kv: KvModel, tp_size: int, usable: tuple[str, ...] | Unknown, backend: str | Unknown, kv_dtype: str
) -> Iterator[PairField]:
    if kv.heads % tp_size or (kv.kv_heads % tp_size and tp_size % kv.kv_heads):
        yield side_fault(
            side.role,
            "tp_size",
            str(tp_size),
            f"{kv.heads} attention heads and {kv.kv_heads} KV heads cannot be dealt to {tp_size} ranks",
            f"choose a `--tensor-parallel-size` that divides {kv.heads} and fits {kv.kv_heads}",
        )
    what = f"{kv.attention} attention with KV dtype {kv_dtype} on {side.gpu}"
    if usable == ():
        fix = "use a GPU that has one, an unquantised KV dtype, or another model"
        yield side_fault(side.role, "attention_backend", "none", f"vLLM has no backend for {what}", fix, SOURCE)
    elif not isinstance(usable, Unknown) and isinstance(backend, str) and backend in _JUDGED - set(usable):
        fix = f"`--attention-backend {usable[0]}`"
        yield side_fault(side.role, "attention_backend", backend, f"{backend} does not serve {what}", fix, SOURCE)
