"""A model that cannot be split is refused by name, from its config alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pdserve.architecture import UnsupportedModel, read_architecture, refuse_unsupported

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 128,
    "eos_token_id": 2,
}


def write(directory: Path, config: dict[str, Any], generation: dict[str, Any] | None = None) -> Path:
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if generation is not None:
        (directory / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    return directory


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "MLA.*kv_lora_rank"),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding-window.*sliding_window"),
        ({"model_type": "gemma3_text", "layer_types": ["sliding_attention", "full_attention"]}, "sliding-window"),
        ({"model_type": "qwen3_next", "layer_types": ["linear_attention", "full_attention"]}, "hybrid"),
        ({"model_type": "gpt_oss"}, "sinks"),
        ({"model_type": "gemma2", "attn_logit_softcapping": 50.0}, "soft-capped"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "encoder-decoder"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "RoPE of type `dynamic`"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "RoPE of type `longrope`"),
        ({"model_type": "llava", "text_config": {}}, "multi-modal"),
    ],
)
def test_an_unsupported_kind_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedModel, match=named):
        refuse_unsupported({**LLAMA, **change})


def test_a_window_that_is_switched_off_is_no_window() -> None:
    refuse_unsupported({**LLAMA, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False})


def test_shape_and_end_of_answer_are_read_from_both_files(tmp_path: Path) -> None:
    shape = read_architecture(write(tmp_path, LLAMA, {"eos_token_id": [7, 8]}))
    assert (shape.layers, shape.heads, shape.kv_heads, shape.head_dim, shape.context) == (2, 4, 2, 16, 128)
    assert shape.eos_ids == {7, 8}
    assert shape.kv_bytes_per_token(4) == 2 * 2 * 2 * 16 * 4


def test_old_and_new_spelling_of_rope_read_the_same(tmp_path: Path) -> None:
    new = write(tmp_path, {**LLAMA, "rope_parameters": {"rope_type": "linear", "rope_theta": 5e5, "factor": 2.0}})
    first = read_architecture(new).rope
    old = write(tmp_path, {**LLAMA, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}})
    assert read_architecture(old).rope == first


def test_a_directory_without_a_decoder_says_what_is_missing(tmp_path: Path) -> None:
    config = {name: value for name, value in LLAMA.items() if name != "num_hidden_layers"}
    with pytest.raises(ValueError, match="num_hidden_layers"):
        read_architecture(write(tmp_path, config))
