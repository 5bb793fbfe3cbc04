"""What public config.json files say of their models' KV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
