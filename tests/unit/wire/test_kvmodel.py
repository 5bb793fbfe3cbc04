"""What public config.json files say of their models' KV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdwire import Attention
from pdwire.kvmodel import ConfigError, read_kv_model

CONFIGS = Path(__file__).parents[2] / "data" / "configs"


def config(name: str, **changed: Any) -> dict[str, Any]:
    return {**json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8")), **changed}


@pytest.mark.parametrize(
    ("name", "layers", "kv_heads", "head_dim", "attention"),
    [
        ("llama-3.1-8b", 32, 8, 128, Attention.DENSE),
        ("llama-3.2-1b", 16, 8, 64, Attention.DENSE),
        ("llama-3.3-70b", 80, 8, 128, Attention.DENSE),
        ("qwen2.5-0.5b", 24, 2, 64, Attention.DENSE),
        ("qwen2.5-7b", 28, 4, 128, Attention.DENSE),
        ("qwen3-32b", 64, 8, 128, Attention.DENSE),
        ("mistral-7b-v0.1", 32, 8, 128, Attention.SLIDING_WINDOW),
        ("gemma-3-27b", 62, 16, 128, Attention.SLIDING_WINDOW),
        ("gpt-oss-120b", 36, 8, 64, Attention.SINKS),
        ("deepseek-v3", 61, 1, 576, Attention.MLA),
        ("deepseek-v3.2", 61, 1, 576, Attention.SPARSE_MLA),
        ("qwen3-next-80b-a3b", 48, 2, 256, Attention.HYBRID),
    ],
)
def test_a_public_model_is_read_as_it_is(
    name: str, layers: int, kv_heads: int, head_dim: int, attention: Attention
) -> None:
    model = read_kv_model(config(name))
    assert (model.layers, model.kv_heads, model.head_dim, model.attention) == (layers, kv_heads, head_dim, attention)
    assert (model.because == "") is (attention is Attention.DENSE)


@pytest.mark.parametrize(
    ("key", "value", "attention"),
    [
        ("is_encoder_decoder", True, Attention.ENCODER_DECODER),
        ("attention_chunk_size", 8192, Attention.CHUNKED),
        ("layer_types", ["full_attention", "linear_attention"], Attention.HYBRID),
        ("layer_types", ["full_attention", "sliding_attention"], Attention.SLIDING_WINDOW),
        ("mamba_d_state", 128, Attention.HYBRID),
        ("sliding_window", 4096, Attention.SLIDING_WINDOW),
    ],
)
def test_a_kind_that_the_contract_cannot_carry_is_told_by_its_key(key: str, value: Any, attention: Attention) -> None:
    model = read_kv_model(config("llama-3.1-8b", **{key: value}))
    assert (model.attention, model.because) == (attention, key)


def test_a_window_that_no_layer_uses_is_no_window() -> None:
    named = config("llama-3.1-8b", sliding_window=4096, layer_types=["full_attention"] * 32)
    assert read_kv_model(named).attention is Attention.DENSE


def test_both_spellings_of_rope_read_alike() -> None:
    old = config("llama-3.1-8b")
    new = {key: value for key, value in old.items() if key not in ("rope_theta", "rope_scaling")}
    new["rope_parameters"] = {"rope_theta": old["rope_theta"], **old["rope_scaling"]}
    assert read_kv_model(new).rope == read_kv_model(old).rope
    assert read_kv_model(old).rope["theta"] == 500000.0


def test_rope_by_kind_of_layer_keeps_both() -> None:
    parameters = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    rope = read_kv_model(config("llama-3.1-8b", rope_parameters=parameters)).rope
    assert rope["full_attention.theta"] == 1e6
    assert rope["sliding_attention.theta"] == 1e4


def test_a_quantised_cache_in_the_checkpoint_is_seen() -> None:
    assert not read_kv_model(config("llama-3.1-8b")).kv_cache_quantised
    assert not read_kv_model(config("deepseek-v3")).kv_cache_quantised
    for key, value in (("kv_cache_scheme", {"num_bits": 8, "type": "float"}), ("kv_cache_quant_algo", "FP8")):
        assert read_kv_model(config("llama-3.1-8b", quantization_config={key: value})).kv_cache_quantised


def test_kv_heads_default_to_the_attention_heads() -> None:
    assert read_kv_model(config("llama-3.1-8b", num_key_value_heads=None)).kv_heads == 32


@pytest.mark.parametrize("key", ["num_attention_heads", "num_hidden_layers"])
@pytest.mark.parametrize("value", [None, 0, "32", True, 1.5])
def test_a_config_of_something_else_names_the_key(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        read_kv_model(config("llama-3.1-8b", **{key: value}))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rope_scaling": "yarn"}, "`rope_scaling` must be an object, it is 'yarn'"),
        ({"rope_scaling": [1]}, "`rope_scaling` must be an object"),
        ({"rope_parameters": 3}, "`rope_parameters` must be an object"),
        ({"rope_scaling": {"factor": float("nan")}}, "rope factor must be finite"),
        ({"rope_scaling": {"rope_type": {"a": {"b": 1}}}}, "rope rope_type.a must be a number"),
        ({"rope_scaling": {"short_factor": [1.0, "x"]}}, "rope short_factor must be a number: 'x'"),
        ({"rope_scaling": {f"k{number}": 1 for number in range(80)}}, "at most 64 keys"),
        ({"rope_theta": float("nan")}, "rope rope_theta must be finite"),
        ({"rope_theta": float("inf")}, "rope rope_theta must be finite"),
        ({"layer_types": [1, {"a": 1}]}, "`layer_types` must be a list of names"),
        ({"layer_types": "abc"}, "`layer_types` must be a list of names"),
        ({"num_hidden_layers": 1_000_000_000}, "`num_hidden_layers` must be at most 65536"),
        ({"num_hidden_layers": 32.0}, "`num_hidden_layers` must be a positive integer, it is 32.0"),
        ({"num_key_value_heads": 0}, "`num_key_value_heads` must be a positive integer, it is 0"),
        ({"num_key_value_heads": 10**6000}, "`num_key_value_heads` must be at most 65535"),
        ({"num_attention_heads": 10**6}, "`num_attention_heads` must be at most 65535"),
        ({"hidden_size": 5, "head_dim": None}, "`hidden_size` 5 is less than one for each of 32 heads"),
        ({"head_dim": 0}, "`head_dim` must be a positive integer"),
        ({"max_position_embeddings": "x"}, "`max_position_embeddings` must be a positive integer, it is 'x'"),
        ({"kv_lora_rank": -1}, "`kv_lora_rank` must be a positive integer"),
    ],
)
def test_what_no_model_has_is_an_error_that_names_the_key(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as failure:
        read_kv_model(config("llama-3.1-8b", **changed))
    assert words in str(failure.value) and len(str(failure.value)) < 300


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_KEYS = sorted({key for name in ("llama-3.1-8b", "deepseek-v3.2", "gemma-3-27b") for key in config(name)})


@settings(max_examples=300, deadline=None)
@given(changed=st.dictionaries(st.sampled_from(_KEYS), _JSON, min_size=1, max_size=3))
def test_any_value_of_any_key_is_read_or_refused_by_name(changed: dict[str, Any]) -> None:
    try:
        read_kv_model(config("llama-3.1-8b", **changed))
    except ConfigError:
        return
