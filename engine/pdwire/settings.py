"""How a user sets a field of the record, by engine: what a verdict's fix tells them to type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pdwire.dtypes import DType
from pdwire.record import CompatRecord

_VLLM_KV_DTYPE = {
    DType.FLOAT8_E4M3FN: "`--kv-cache-dtype fp8_e4m3`",
    DType.FLOAT8_E5M2: "`--kv-cache-dtype fp8_e5m2`",
}


def _vllm_dtype(value: object) -> str:
    if isinstance(value, DType) and value in _VLLM_KV_DTYPE:
        return _VLLM_KV_DTYPE[value]
    return f"`--dtype {_shown(value)} --kv-cache-dtype auto`"


def _shown(value: object) -> str:
    return value.label if isinstance(value, DType) else str(value)


_SETTINGS: Mapping[tuple[str, str], Callable[[object], str]] = {
    ("vllm", "dtype"): _vllm_dtype,
    ("vllm", "tp_size"): lambda value: f"`--tensor-parallel-size {value}`",
    ("vllm", "block_tokens"): lambda value: f"`--block-size {value}`",
    ("vllm", "attention_backend"): lambda value: f"`--attention-backend {value}`",
    ("torch", "dtype"): lambda value: f"`model.dtype: {_shown(value)}`",
    ("torch", "block_tokens"): lambda value: f"`block_tokens: {value}`",
}
"""vLLM: its command line. torch: keys of the engine's configuration file."""


def setting(record: CompatRecord, field: str, value: object) -> str:
    """What to set on `record`'s engine so that its field has this value; plain words for an engine not known here."""
    known = _SETTINGS.get((record.engine, field))
    return known(value) if known else f"{field} {_shown(value)}"


def one_value(prefill: CompatRecord, decode: CompatRecord, field: str) -> str:
    """The two ways to make a field equal: change prefill to decode's value, or the other way round."""
    ours, theirs = getattr(prefill, field), getattr(decode, field)
    return f"start prefill with {setting(prefill, field, theirs)}, or decode with {setting(decode, field, ours)}"
