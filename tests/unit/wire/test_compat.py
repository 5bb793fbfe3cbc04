"""The verdict on two records: every field answers with both values, the side and the fix."""

from dataclasses import replace
from typing import Any

import pytest

from pdwire import (
    Attention,
    ByteOrder,
    CompatRecord,
    Conversion,
    DType,
    FieldVerdict,
    Hello,
    Kind,
    Layout,
    Limits,
    LocalProtocolError,
    Outcome,
    Role,
    Side,
    bodies,
    verdict,
)
from pdwire.validate import CONNECTION

LLAMA = CompatRecord(
    name="prefill-0",
    model_digest="m",
    tokenizer_digest="t",
    rope={"theta": 500000.0, "rope_type": "llama3", "factor": 8.0},
    layers=32,
    kv_heads=8,
    head_dim=128,
    dtype=DType.BFLOAT16,
    engine="vllm",
    engine_version="0.33.0",
    attention_backend="FLASH_ATTN",
    capacity_tokens=100_000,
    transports=("tcp", "shm"),
)


def only(decode: CompatRecord, *can: Conversion, prefill: CompatRecord = LLAMA) -> FieldVerdict:
    (field,) = verdict(prefill, decode, can=set(can)).differing
    return field


DIFFERENT: dict[str, Any] = {
    "protocol": 2,
    "attention": Attention.MLA,
    "model_digest": "n",
    "tokenizer_digest": "u",
    "rope": {"theta": 500000.0, "rope_type": "llama3", "factor": 32.0},
    "layers": 16,
    "kv_heads": 4,
    "head_dim": 64,
    "dtype": DType.FLOAT16,
    "kv_scales": (0.5,) * 64,
    "tp_size": 2,
    "layout": Layout.HEAD_MAJOR,
    "byte_order": ByteOrder.BIG,
    "isa_layout": "amx",
    "transports": ("rdma",),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_fatal_field_says_both_values_the_side_and_the_fix(name: str) -> None:
    field = only(replace(LLAMA, **{name: DIFFERENT[name]}))
    assert field.outcome is Outcome.FATAL
    assert field.field.split(".")[0] == name
    assert field.prefill != field.decode
    assert field.reason
    assert field.fix
    assert field.side is not Side.NONE
    assert field.prefill in str(field)
    assert field.decode in str(field)


@pytest.mark.parametrize("kind", [kind for kind in Attention if kind is not Attention.DENSE])
def test_a_model_that_the_contract_cannot_carry_is_refused_by_name_though_both_agree(kind: Attention) -> None:
    side = replace(LLAMA, attention=kind)
    (field,) = verdict(side, side, can=set(Conversion)).fatal
    assert field.field == "attention"
    assert kind.value in field.reason
    assert field.side is Side.BOTH


@pytest.mark.parametrize(
    ("conversion", "changed", "exact"),
    [
        (Conversion.DTYPE, {"dtype": DType.FLOAT32}, True),
        (Conversion.ROUNDING, {"dtype": DType.FLOAT16}, False),
        (Conversion.TP, {"tp_size": 4}, True),
        (Conversion.LAYOUT, {"layout": Layout.HEAD_MAJOR}, True),
        (Conversion.LAYOUT, {"isa_layout": "vec"}, True),
        (Conversion.BYTE_ORDER, {"byte_order": ByteOrder.BIG}, True),
    ],
)
def test_a_conversion_turns_its_own_field_from_fatal_to_convertible(
    conversion: Conversion, changed: dict[str, Any], exact: bool
) -> None:
    decode = replace(LLAMA, **changed)
    assert only(decode, *set(Conversion) - {conversion}).outcome is Outcome.FATAL
    field = only(decode, conversion)
    assert field.outcome is Outcome.CONVERTIBLE
    assert field.exact is exact
    assert verdict(LLAMA, decode, can={conversion}).exact is exact


def test_quantised_kv_is_not_converted_even_on_request() -> None:
    assert only(replace(LLAMA, dtype=DType.FLOAT8_E4M3FN), *Conversion).outcome is Outcome.FATAL


def test_whole_blocks_of_two_sizes_need_the_block_conversion() -> None:
    packed = replace(LLAMA, isa_layout="vec", block_tokens=128)
    other = replace(packed, block_tokens=64)
    assert only(other, prefill=packed).outcome is Outcome.FATAL
    assert only(other, Conversion.BLOCK, prefill=packed).outcome is Outcome.CONVERTIBLE


def test_scales_are_compared_by_value_and_the_layer_is_named() -> None:
    scales = tuple(0.01 * index for index in range(64))
    other = (*scales[:7], 0.5, *scales[8:])
    field = only(replace(LLAMA, kv_scales=other), prefill=replace(LLAMA, kv_scales=scales))
    assert field.field == "kv_scales.layer3.v"
    assert field.prefill == repr(scales[7])
    assert "1 of 64" in field.decode


def test_rope_is_compared_key_by_key_and_a_missing_key_is_absent() -> None:
    (field,) = verdict(LLAMA, replace(LLAMA, rope={"theta": 500000, "rope_type": "llama3"})).fatal
    assert (field.field, field.prefill, field.decode) == ("rope.factor", "8.0", "absent")


@pytest.mark.parametrize(
    ("kv_heads", "tp_size", "ranges"),
    [(8, 2, [(0, 4), (4, 8)]), (2, 4, [(0, 1), (0, 1), (1, 2), (1, 2)]), (1, 2, [(0, 1), (0, 1)])],
)
def test_a_rank_knows_its_heads_replicas_being_neighbours(
    kv_heads: int, tp_size: int, ranges: list[tuple[int, int]]
) -> None:
    ranks = [replace(LLAMA, kv_heads=kv_heads, tp_size=tp_size, tp_rank=rank) for rank in range(tp_size)]
    assert [(rank.rank_head_range.start, rank.rank_head_range.stop) for rank in ranks] == ranges


def test_ranks_that_hold_replicas_of_one_head_may_be_joined() -> None:
    rank = replace(LLAMA, kv_heads=2, tp_size=4)
    replica, stranger = replace(rank, tp_rank=1), replace(rank, tp_rank=2)
    assert only(replica, prefill=rank).outcome is Outcome.CONVERTIBLE
    assert only(stranger, prefill=rank).outcome is Outcome.FATAL


def test_the_fix_is_what_each_engine_lets_the_user_type() -> None:
    field = only(replace(LLAMA, tp_size=4))
    assert "`--tensor-parallel-size 4`" in field.fix
    assert "`--tensor-parallel-size 1`" in field.fix
    bundled = replace(LLAMA, engine="torch", dtype=DType.FLOAT32)
    (fatal,) = verdict(LLAMA, bundled).fatal
    assert "`--dtype float32 --kv-cache-dtype auto`" in fatal.fix
    assert "`model.dtype: bfloat16`" in fatal.fix


def test_fields_limits_the_verdict_to_what_the_caller_knows() -> None:
    result = verdict(LLAMA, replace(LLAMA, model_digest="?", tp_size=2), fields={"tp_size", "layers"})
    assert [field.field for field in result.fields] == ["layers", "tp_size"]


@pytest.mark.parametrize("wrong", [{"kv_scales": (1.0,)}, {"kv_scales": (float("nan"),) * 64}, {"isa_layout": ""}])
def test_a_record_out_of_range_is_our_own_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        replace(LLAMA, **wrong)


def test_every_field_crosses_the_wire() -> None:
    record = replace(LLAMA, **{k: v for k, v in DIFFERENT.items() if k not in ("layers", "kv_heads")}, block_tokens=64)
    hello = Hello(role=Role.PREFILL, record=record, offer=Limits().offer)
    assert bodies.decode(Kind.HELLO, CONNECTION, bodies.encode(hello)) == hello
