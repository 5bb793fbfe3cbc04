"""The verdict on a pair: every field that differs is named with both values, what follows, and the fix."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.kv_examples import DECODE, PREFILL

from pdwire import CompatRecord, Conversion, DType, Outcome, Side, verdict
from pdwire.compat import RULES

LABELS_ONLY = {"name"}

FATAL: list[tuple[dict[str, Any], str, str, str, str]] = [
    ({"protocol": 2}, "protocol", "1", "2", "install the other side's pdctl version"),
    ({"model_digest": "sha256:beef"}, "model_digest", "sha256:6e1f", "sha256:beef", "same weights and config.json"),
    ({"tokenizer_digest": "sha256:0"}, "tokenizer_digest", "sha256:90ab", "sha256:0", "same tokenizer files"),
    ({"rope": {"rope_type": "default", "theta": 5e5}}, "rope.theta", "100000.0", "500000.0", "config.json"),
    ({"rope": {"rope_type": "default"}}, "rope.theta", "100000.0", "absent", "never only on one side"),
    (
        {"rope": {"rope_type": "yarn", "theta": 100000.0, "factor": 4.0}},
        "rope.factor",
        "absent",
        "4.0",
        "never only on one side",
    ),
    ({"layers": 5}, "layers", "4", "5", "same model"),
    ({"kv_heads": 8}, "kv_heads", "2", "8", "same model"),
    ({"head_dim": 128}, "head_dim", "64", "128", "same model"),
    (
        {"dtype": DType.BFLOAT16},
        "dtype",
        "float32",
        "bfloat16",
        "`model.dtype: bfloat16`, or decode with `model.dtype: float32`",
    ),
    ({"kv_scales": (0.5,) * 8}, "kv_scales", "none", "8 scales", "same KV scales on both"),
    ({"tp_size": 2}, "tp_size", "1", "2", "start prefill with tp_size 2, or decode with tp_size 1"),
    ({"transports": ("shm", "rdma")}, "transports", "tcp", "shm, rdma", "shm, rdma on prefill, or of tcp on decode"),
]


@pytest.mark.parametrize(
    ("change", "field", "prefill", "decode", "fix"), FATAL, ids=[f"{case[1]}-{case[3]}" for case in FATAL]
)
def test_a_fatal_difference_is_named_with_both_values_and_its_fix(
    change: dict[str, Any], field: str, prefill: str, decode: str, fix: str
) -> None:
    result = verdict(PREFILL, replace(DECODE, **change))
    assert not result.ok
    found = next(entry for entry in result.fatal if entry.field == field)
    assert (found.prefill, found.decode) == (prefill, decode)
    assert found.reason and found.side is not Side.NONE and fix in found.fix
    text = str(result)
    assert f"{field}: prefill {prefill}, decode {decode}: {found.reason}; fix ({found.side}): {found.fix}" in text
    assert "mismatch" not in text and text.startswith("prefill-0 -> decode-0: incompatible; ")


CONVERTIBLE: list[tuple[dict[str, Any], str, bool]] = [
    ({"block_tokens": 64}, "block_tokens", True),
    ({"capacity_tokens": 77}, "capacity_tokens", True),
    ({"transports": ("shm", "tcp")}, "transports", True),
    ({"engine": "vllm"}, "engine", False),
    ({"engine_version": "2.12.0"}, "engine_version", False),
    ({"attention_backend": "flash"}, "attention_backend", False),
]


@pytest.mark.parametrize(("change", "field", "exact"), CONVERTIBLE, ids=[case[1] for case in CONVERTIBLE])
def test_a_difference_that_the_contract_bridges_says_how_and_whether_exactly(
    change: dict[str, Any], field: str, exact: bool
) -> None:
    result = verdict(PREFILL, replace(replace(DECODE, block_tokens=PREFILL.block_tokens), **change))
    assert result.ok and result.exact is exact
    (found,) = result.differing
    assert (found.field, found.outcome, found.exact) == (field, Outcome.CONVERTIBLE, exact)
    assert found.reason and found.prefill != found.decode


def test_equal_records_are_equal_in_every_field() -> None:
    result = verdict(PREFILL, PREFILL)
    assert result.ok and result.exact and not result.differing
    assert str(result) == "prefill-0 -> prefill-0: compatible"


def test_every_field_of_the_record_is_judged() -> None:
    judged = [rule.field for rule in RULES]
    assert len(set(judged)) == len(judged)
    assert set(judged) == {field.name for field in fields(CompatRecord)} - LABELS_ONLY


@pytest.mark.parametrize(
    ("have", "want", "exact"),
    [
        (DType.BFLOAT16, DType.FLOAT32, True),
        (DType.FLOAT16, DType.FLOAT32, True),
        (DType.FLOAT32, DType.BFLOAT16, False),
        (DType.FLOAT16, DType.BFLOAT16, False),
        (DType.BFLOAT16, DType.FLOAT16, False),
    ],
)
def test_a_dtype_is_convertible_only_where_the_engine_can_and_exact_only_where_it_widens(
    have: DType, want: DType, exact: bool
) -> None:
    prefill, decode = replace(PREFILL, dtype=have), replace(DECODE, dtype=want)
    assert not verdict(prefill, decode).ok
    result = verdict(prefill, decode, can={Conversion.DTYPE, Conversion.ROUNDING})
    assert result.ok and result.exact is exact
    assert verdict(prefill, decode, can={Conversion.DTYPE}).ok is exact


def test_the_advice_to_round_is_given_only_where_rounding_would_help() -> None:
    for have, want in ((DType.FLOAT8_E4M3FN, DType.BFLOAT16), (DType.BFLOAT16, DType.FLOAT8_E5M2)):
        sides = (replace(PREFILL, dtype=have), replace(DECODE, dtype=want))
        (fault,) = verdict(*sides, can={Conversion.DTYPE, Conversion.ROUNDING}).fatal
        assert "kv_rounding" not in fault.fix
    (fault,) = verdict(PREFILL, replace(DECODE, dtype=DType.FLOAT16)).fatal
    assert "kv_rounding: true" in fault.fix


def test_a_rounding_that_can_overflow_says_so() -> None:
    for want, overflows in ((DType.FLOAT16, True), (DType.BFLOAT16, False)):
        result = verdict(PREFILL, replace(DECODE, dtype=want), can={Conversion.ROUNDING})
        (line,) = (line for line in result.differing if line.field == "dtype")
        assert ("65504" in line.reason) is overflows


def test_a_quantised_dtype_is_not_converted_without_its_scales() -> None:
    prefill = replace(PREFILL, dtype=DType.FLOAT8_E4M3FN, kv_scales=(0.5,) * 8)
    result = verdict(prefill, DECODE, can={Conversion.DTYPE})
    assert {entry.field for entry in result.fatal} == {"dtype", "kv_scales"}


def test_ranks_are_paired_one_to_one_unless_the_engine_regroups_heads() -> None:
    prefill = replace(PREFILL, tp_size=2, tp_rank=0)
    decode = replace(DECODE, tp_size=2, tp_rank=1)
    (found,) = verdict(prefill, decode).fatal
    assert found.fix == "connect prefill rank 0 to decode rank 0"
    assert verdict(prefill, decode, can={Conversion.TP}).ok
    assert verdict(replace(PREFILL, tp_size=4, tp_rank=3), DECODE, can={Conversion.TP}).ok


def test_the_older_protocol_is_the_one_to_upgrade() -> None:
    newer, older = replace(DECODE, protocol=3), replace(DECODE, protocol=1)
    assert verdict(PREFILL, newer).fatal[0].side is Side.PREFILL
    assert verdict(replace(PREFILL, protocol=2), older).fatal[0].side is Side.DECODE


def test_every_difference_is_named_not_only_the_first() -> None:
    decode = replace(DECODE, layers=5, head_dim=80, rope={}, model_digest="x")
    assert [entry.field for entry in verdict(PREFILL, decode).fatal] == [
        "model_digest",
        "rope.rope_type",
        "rope.theta",
        "layers",
        "head_dim",
    ]


@given(st.sets(st.integers(0, len(FATAL) - 1), max_size=4))
def test_a_pair_is_compatible_only_if_nothing_fatal_differs(chosen: set[int]) -> None:
    changed = {key for index in chosen for key in FATAL[index][0]}
    assume(not {"layers", "kv_scales"} <= changed)  # scales are as many as layers: no such record
    decode = DECODE
    for index in chosen:
        decode = replace(decode, **FATAL[index][0])
    assert verdict(PREFILL, decode).ok is (not chosen)


def test_heads_of_a_rank_are_split_and_then_replicated() -> None:
    for size, heads in ((1, 8), (2, 4), (8, 1), (16, 1)):
        record = replace(PREFILL, kv_heads=8, tp_size=size)
        assert record.rank_kv_heads == heads
    assert PREFILL.bytes_per_token == 2 * 4 * 2 * 64 * 4
