"""A small prefill and decode that fit each other, and frames between them, for tests of wire and transports."""

from __future__ import annotations

from dataclasses import replace

from pdwire import CompatRecord, DType, LayerFrame

PREFILL = CompatRecord(
    name="prefill-0",
    model_digest="sha256:6e1f",
    tokenizer_digest="sha256:90ab",
    rope={"rope_type": "default", "theta": 100000.0},
    layers=4,
    kv_heads=2,
    head_dim=64,
    dtype=DType.FLOAT32,
    engine="torch",
    engine_version="2.13.0",
    attention_backend="sdpa",
    capacity_tokens=1 << 20,
    transports=("tcp",),
)
DECODE = replace(PREFILL, name="decode-0", block_tokens=32)


def request_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def layer_frame(
    request: bytes, layer: int = 0, first_token: int = 0, count: int = 16, record: CompatRecord = PREFILL
) -> LayerFrame:
    return LayerFrame(
        request=request,
        layer=layer,
        first_token=first_token,
        count=count,
        dtype=record.dtype,
        kv_heads=record.rank_kv_heads,
        head_dim=record.head_dim,
    )
