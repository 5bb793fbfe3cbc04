"""A wrong KV shape is told by its cause, with layer, field, expected, got and the side to change."""

import time
from dataclasses import replace
from typing import Any

import pytest

from pdwire import CompatRecord, DType, LayerFrame, Side
from pdwire.kvshape import ShapeFault, check_frame, check_record, check_tensor, check_tokens

REQUEST = b"r" * 16
TOKENS = 37
RECORD = CompatRecord(
    name="decode-0",
    model_digest="m",
    tokenizer_digest="t",
    rope={},
    layers=32,
    kv_heads=8,
    head_dim=128,
    dtype=DType.BFLOAT16,
    tp_size=2,
    tp_rank=1,
    engine="torch",
    engine_version="1",
    attention_backend="sdpa",
    capacity_tokens=1000,
    transports=("tcp",),
)
"""Llama-3-8B's shape on rank 1 of 2: 4 of 8 KV heads, of 32 attention heads."""


def frame(**changed: Any) -> LayerFrame:
    values: dict[str, Any] = {
        "request": REQUEST,
        "layer": 3,
        "first_token": 0,
        "count": TOKENS,
        "dtype": DType.BFLOAT16,
        "kv_heads": 4,
        "head_dim": 128,
    }
    return LayerFrame(**(values | changed))


def tensor(shape: tuple[int, ...], **more: Any) -> ShapeFault | None:
    return check_tensor(3, "K", shape, DType.BFLOAT16, RECORD, TOKENS, attention_heads=32, **more)


def test_the_agreed_frame_and_tensor_pass() -> None:
    assert check_frame(frame(), RECORD, 1000) is None
    assert tensor((TOKENS, 4, 128)) is None
    assert check_tokens(3, TOKENS, TOKENS) is None
    assert check_record(RECORD, Side.PREFILL) is None


@pytest.mark.parametrize(
    ("changed", "field", "expected", "got", "cause"),
    [
        ({"dtype": DType.FLOAT16}, "dtype", "bfloat16", "float16", "other values"),
        ({"dtype": DType.FLOAT32}, "dtype", "bfloat16", "float32", "4 bytes an element where 2 are read"),
        ({"layer": 32}, "layer", "0 to 31", "32", "no such layer"),
        ({"kv_heads": 128, "head_dim": 4}, "shape", "[4, 128]", "[128, 4]", "exchanged"),
        ({"kv_heads": TOKENS, "count": 4}, "kv_heads", "4", "37", "head-major given for token-major"),
        ({"kv_heads": 8}, "kv_heads", "4", "8", "all KV heads of the model"),
        ({"kv_heads": 2}, "kv_heads", "4", "2", "the share of tensor-parallel size 4"),
        ({"kv_heads": 16}, "kv_heads", "4", "16", "2 times the model's KV heads"),
        ({"kv_heads": 3}, "kv_heads", "4", "3", "another model"),
        ({"head_dim": 256}, "head_dim", "128", "256", "K and V side by side"),
        ({"head_dim": 64}, "head_dim", "128", "64", "another model's head size"),
        ({"first_token": 990}, "tokens", "positions below 1000", "990..1026", "whole cache"),
    ],
)
def test_a_wrong_frame_names_the_cause(
    changed: dict[str, Any], field: str, expected: str, got: str, cause: str
) -> None:
    wrong = frame(**changed)
    fault = check_frame(wrong, RECORD, 1000)
    assert fault is not None
    assert (fault.field, fault.expected, fault.got) == (field, expected, got)
    assert cause in fault.cause
    assert fault.side is Side.PREFILL
    assert fault.layer == wrong.layer
    for part in (f"layer {wrong.layer}", field, expected, got, "change prefill", fault.fix):
        assert part in str(fault)


@pytest.mark.parametrize(
    ("shape", "cause"),
    [
        ((4, TOKENS, 128), "head-major given for token-major"),
        ((TOKENS, 128, 4), "another order"),
        ((1, TOKENS, 4, 128), "a batch dimension of 1 in front"),
        ((1, 4, TOKENS, 128), "as in a Hugging Face cache"),
        ((2, 4, TOKENS, 128), "a batch of 2 sequences"),
        ((TOKENS, 16, 128), "attention heads, where KV heads are meant"),
        ((16, TOKENS, 128), "attention heads, where KV heads are meant"),
        ((TOKENS, 8, 128), "all KV heads of the model"),
        ((TOKENS, 1, 128), "the share of tensor-parallel size 8"),
        ((3, 16, 4, 128), "whole blocks of 16 tokens"),
        ((3, 4, 16, 128), "whole head-major blocks of 16 tokens"),
        ((TOKENS - 1, 4, 128), "the last prompt token is missing"),
        ((TOKENS + 1, 4, 128), "KV of the first generated token"),
        ((48, 4, 128), "padded to whole blocks of 16"),
        ((20, 4, 128), "tokens are missing"),
        ((100, 4, 128), "more tokens than the prompt has"),
        ((TOKENS, 4, 256), "K and V side by side"),
        ((TOKENS * 4, 128), "2 axes"),
        ((5, 5, 5, 5), "4 axes"),
    ],
)
def test_a_wrong_tensor_names_the_cause(shape: tuple[int, ...], cause: str) -> None:
    fault = tensor(shape)
    assert fault is not None
    assert cause in fault.cause
    assert fault.expected == f"[tokens {TOKENS}, kv_heads 4, head_dim 128]"
    assert fault.got == str(list(shape))
    assert str(fault).startswith("layer 3 K: expected")


def test_the_side_to_change_is_the_one_that_was_looked_at() -> None:
    fault = tensor((4, TOKENS, 128), side=Side.DECODE)
    assert fault is not None
    assert "change decode" in str(fault)


def test_an_exchanged_order_is_seen_in_the_strides_where_tokens_equal_kv_heads() -> None:
    token_major, head_major = (1024, 256, 2), (256, 1024, 2)
    assert check_tensor(0, "V", (4, 4, 128), DType.BFLOAT16, RECORD, 4, strides=token_major) is None
    fault = check_tensor(0, "V", (4, 4, 128), DType.BFLOAT16, RECORD, 4, strides=head_major)
    assert fault is not None
    assert "head-major" in fault.cause


def test_one_token_or_one_head_has_no_order_to_exchange() -> None:
    assert check_tensor(0, "K", (1, 4, 128), DType.BFLOAT16, RECORD, 1, strides=(2, 256, 2)) is None


@pytest.mark.parametrize(
    ("have", "cause"), [(TOKENS - 1, "the last prompt token is missing"), (TOKENS + 1, "first generated token")]
)
def test_a_token_too_few_or_too_many_is_named(have: int, cause: str) -> None:
    fault = check_tokens(5, have, TOKENS)
    assert fault is not None
    assert cause in fault.cause
    assert fault.layer == 5


def test_scales_on_an_unquantised_cache_and_a_scale_of_zero_are_refused() -> None:
    fault = check_record(replace(RECORD, kv_scales=(1.0,) * 64), Side.DECODE)
    assert fault is not None
    assert "quantised" in fault.cause
    quantised = replace(RECORD, dtype=DType.FLOAT8_E4M3FN, kv_scales=(1.0,) * 9 + (0.0,) + (1.0,) * 54)
    fault = check_record(quantised, Side.PREFILL)
    assert fault is not None
    assert (fault.layer, fault.field) == (4, "V scale")
    assert check_record(replace(quantised, kv_scales=(0.5,) * 64), Side.PREFILL) is None


def test_a_good_frame_costs_less_than_ten_microseconds() -> None:
    good, rounds = frame(), 20_000
    best = min(_seconds(good, rounds) for _ in range(5))
    assert best / rounds < 10e-6


def _seconds(good: LayerFrame, rounds: int) -> float:
    began = time.perf_counter()
    for _ in range(rounds):
        check_frame(good, RECORD, 1000)
    return time.perf_counter() - began
