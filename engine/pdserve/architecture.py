"""What a model directory's config.json says about its attention, and a no by name for what the KV contract cannot
carry.

Pure functions over the parsed file: no torch, no weights, so a verdict costs nothing and needs no GPU.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class UnsupportedModel(Exception):
    """The model's attention is of a kind that cannot be split yet.

    The message names it and the config field that says so.
    """


@dataclass(frozen=True)
class Architecture:
    """What one token's KV looks like, and how far positions go.

    heads: query heads. kv_heads: heads of K and of V. rope: the rotation's parameters, as config.json has them.
    context: most tokens of prompt and answer together. eos_ids: tokens that end an answer.
    """

    family: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    rope: Mapping[str, Any]
    eos_ids: frozenset[int]

    def kv_bytes_per_token(self, item_bytes: int) -> int:
        """K and V of all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * item_bytes


# RoPE kinds whose angles depend on how long the sequence already is: K written early would be rotated differently
# from the one-process run, so a cache cannot be built chunk by chunk.
_LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")


def read_architecture(directory: Path) -> Architecture:
    """Reads config.json and, for the end-of-answer ids, generation_config.json.

    Raises UnsupportedModel, or OSError and ValueError when the directory is not a Hugging Face model.
    """
    config = _read_json(directory / "config.json")
    refuse_unsupported(config)
    generation_file = directory / "generation_config.json"
    generation = _read_json(generation_file) if generation_file.is_file() else {}
    return _architecture(config, generation)


def _read_json(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object")
    return value


def _architecture(config: Mapping[str, Any], generation: Mapping[str, Any]) -> Architecture:
    try:
        heads = int(config["num_attention_heads"])
        hidden = int(config["hidden_size"])
        return Architecture(
            family=str(config.get("model_type", "unknown")),
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            vocabulary=int(config["vocab_size"]),
            context=int(config["max_position_embeddings"]),
            rope=_rope(config),
            eos_ids=_ids(generation.get("eos_token_id", config.get("eos_token_id"))),
        )
    except KeyError as missing:
        raise ValueError(f"config.json has no {missing}: not a decoder-only language model") from None


def _rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """Both spellings: `rope_parameters` (transformers 5) and `rope_theta` with `rope_scaling` (before)."""
    parameters = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    parameters.setdefault("rope_theta", config.get("rope_theta", 10000.0))  # the default of LlamaConfig
    parameters.setdefault("rope_type", parameters.pop("type", "default"))
    return parameters


def _ids(value: Any) -> frozenset[int]:
    if value is None:
        return frozenset()
    return frozenset([value] if isinstance(value, int) else value)


def refuse_unsupported(config: Mapping[str, Any]) -> None:
    """Raises UnsupportedModel for MLA, sliding-window, hybrid, sink, soft-capped, encoder-decoder and length-
    dependent RoPE.
    """
    family = config.get("model_type", "unknown")
    for applies, kind, field in _unsupported(config):
        if applies:
            raise UnsupportedModel(
                f"model_type `{family}`: {kind} is not supported by the KV contract yet (config.json: `{field}`)"
            )


def _unsupported(config: Mapping[str, Any]) -> list[tuple[bool, str, str]]:
    family = str(config.get("model_type", "unknown"))
    layer_types = set(config.get("layer_types") or ())
    window = config.get("sliding_window") is not None and config.get("use_sliding_window", True)
    rope_type = _rope(config)["rope_type"]
    return [
        (bool(config.get("is_encoder_decoder")), "an encoder-decoder", "is_encoder_decoder"),
        ("text_config" in config, "a multi-modal model", "text_config"),
        (config.get("kv_lora_rank") is not None, "multi-head latent attention (MLA)", "kv_lora_rank"),
        (family.startswith("gpt_oss"), "attention with sinks", "model_type"),
        (bool(layer_types & {"sliding_attention", "chunked_attention"}), "sliding-window attention", "layer_types"),
        (bool(layer_types - {"full_attention"}), "hybrid attention", "layer_types"),
        # Qwen2 names a window that `use_sliding_window: false` turns off.
        (bool(window), "sliding-window attention", "sliding_window"),
        (
            config.get("attn_logit_softcapping") is not None,
            "attention with soft-capped logits",
            "attn_logit_softcapping",
        ),
        (rope_type in _LENGTH_DEPENDENT_ROPE, f"RoPE of type `{rope_type}`", "rope_parameters"),
    ]
