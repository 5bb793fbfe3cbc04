"""What a Hugging Face config.json says of a model's KV. Pure: the parsed file in, a value out.

Shared by the engines, which refuse what they cannot serve, and by the verdict before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pdwire.errors import LocalProtocolError
from pdwire.layout import Attention
from pdwire.record import MAX_HEADS, MAX_LAYERS, MAX_ROPE_KEYS, RopeValue, check_rope_value
from pdwire.validate import shown


class ConfigError(ValueError):
    """config.json is not that of a decoder-only language model; the message names the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvModel:
    """family: `model_type`. heads: query heads. kv_heads, head_dim: of the cache; MLA keeps 1 head of latent and RoPE.

    attention: what is kept of each token; because: the config key that says so. rope: flat, `None` left out.
    dtype: `torch_dtype` as written, None where the file does not say. kv_cache_quantised: the checkpoint brings a
    quantised cache (its `quantization_config` names a KV scheme). context: most positions.
    """

    family: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    attention: Attention
    because: str
    rope: Mapping[str, RopeValue]
    dtype: str | None
    kv_cache_quantised: bool
    context: int | None


def read_kv_model(config: Mapping[str, Any]) -> KvModel:
    """config: of a text model, or of a multi-modal one whose language part is `text_config`. Raises ConfigError."""
    text = config.get("text_config")
    language = {**config, **text} if isinstance(text, Mapping) else dict(config)
    heads = _integer(language, "num_attention_heads", MAX_HEADS)
    attention, because = _attention(language)
    kv_heads, head_dim = _kv_shape(language, heads, attention)
    dtype = language.get("dtype") or language.get("torch_dtype")
    return KvModel(
        family=str(language.get("model_type", "unknown")),
        layers=_integer(language, "num_hidden_layers", MAX_LAYERS),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        attention=attention,
        because=because,
        rope=_rope(language),
        dtype=dtype.removeprefix("torch.") if isinstance(dtype, str) else None,
        kv_cache_quantised=_kv_cache_quantised(config),
        context=_optional(language, "max_position_embeddings", 0xFFFF_FFFF),
    )


def _integer(config: Mapping[str, Any], key: str, most: int) -> int:
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"config.json: `{key}` must be a positive integer, it is {shown(value)}")
    if value > most:
        raise ConfigError(f"config.json: `{key}` must be at most {most}, it is {shown(value)}")
    return value


def _optional(config: Mapping[str, Any], key: str, most: int) -> int | None:
    return None if config.get(key) is None else _integer(config, key, most)


def _kv_shape(config: Mapping[str, Any], heads: int, attention: Attention) -> tuple[int, int]:
    if attention in (Attention.MLA, Attention.SPARSE_MLA):
        half = MAX_HEADS // 2
        return 1, _integer(config, "kv_lora_rank", half) + _integer(config, "qk_rope_head_dim", half)
    head_dim = _optional(config, "head_dim", MAX_HEADS)
    if head_dim is None:
        head_dim = _integer(config, "hidden_size", heads * MAX_HEADS) // heads
    if not head_dim:
        raise ConfigError(
            f"config.json: `hidden_size` {config['hidden_size']} is less than one for each of {heads} heads"
        )
    return _optional(config, "num_key_value_heads", MAX_HEADS) or heads, head_dim


_RECURRENT_LAYERS = {"linear_attention", "mamba", "mamba2", "recurrent"}
_RECURRENT_KEYS = ("full_attention_interval", "linear_num_key_heads", "mamba_d_state", "mamba_num_heads", "ssm_cfg")


def _layer_types(named: object) -> set[str]:
    if named is None:
        return set()
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise ConfigError(f"config.json: `layer_types` must be a list of names, it is {shown(named)}")
    return set(named)


def _attention(config: Mapping[str, Any]) -> tuple[Attention, str]:
    """The kind and the key that says so; the first that applies, the hardest to serve first."""
    layer_types = _layer_types(config.get("layer_types"))
    recurrent = next((key for key in _RECURRENT_KEYS if config.get(key) is not None), None)
    window = config.get("sliding_window") is not None and config.get("use_sliding_window", True)
    family = str(config.get("model_type", ""))
    if config.get("is_encoder_decoder"):
        return Attention.ENCODER_DECODER, "is_encoder_decoder"
    if config.get("kv_lora_rank") is not None:
        sparse = config.get("index_topk") is not None
        return (Attention.SPARSE_MLA, "index_topk") if sparse else (Attention.MLA, "kv_lora_rank")
    if layer_types & _RECURRENT_LAYERS:
        return Attention.HYBRID, "layer_types"
    if recurrent is not None:
        return Attention.HYBRID, recurrent
    if family == "gpt_oss":
        return Attention.SINKS, "model_type"
    if "chunked_attention" in layer_types or config.get("attention_chunk_size") is not None:
        return Attention.CHUNKED, "layer_types" if layer_types else "attention_chunk_size"
    if layer_types:
        # Named layer by layer, so a window in the file that no layer uses does not count.
        return (Attention.SLIDING_WINDOW if "sliding_attention" in layer_types else Attention.DENSE), "layer_types"
    return (Attention.SLIDING_WINDOW, "sliding_window") if window else (Attention.DENSE, "")


# Other spellings of one key: before and since transformers 5.
_ROPE_NAMES = {"rope_theta": "theta", "type": "rope_type"}
_ROPE_BESIDE = ("rope_theta", "rope_local_base_freq", "partial_rotary_factor", "rotary_pct")
_ROPE_THETA = 10_000.0
"""transformers' own default where config.json names none (LlamaConfig)."""


def _rope(config: Mapping[str, Any]) -> dict[str, RopeValue]:
    """One form for `rope_parameters` (transformers 5) and `rope_theta` with `rope_scaling` (before)."""
    flat: dict[str, RopeValue] = {"theta": _ROPE_THETA, "rope_type": "default"}
    for key in _ROPE_BESIDE:
        _put(flat, key, config.get(key))
    where = "rope_parameters" if config.get("rope_parameters") else "rope_scaling"
    said = config.get(where) or {}
    if not isinstance(said, Mapping):
        raise ConfigError(f"config.json: `{where}` must be an object, it is {shown(said)}")
    for key, value in said.items():
        if isinstance(value, Mapping):
            for inner, leaf in value.items():
                _put(flat, f"{key}.{_ROPE_NAMES.get(inner, inner)}", leaf)
        else:
            _put(flat, key, value)
    if len(flat) > MAX_ROPE_KEYS:
        raise ConfigError(f"config.json: `{where}` must have at most {MAX_ROPE_KEYS} keys, it has {len(flat)}")
    return flat


def _put(flat: dict[str, RopeValue], key: str, value: Any) -> None:
    if value is None:
        return
    flat[_ROPE_NAMES.get(key, key)] = settled = tuple(value) if isinstance(value, list) else value
    try:
        check_rope_value(key, settled)
    except LocalProtocolError as error:
        raise ConfigError(f"config.json: {error}") from None


def _kv_cache_quantised(config: Mapping[str, Any]) -> bool:
    """compressed-tensors says `kv_cache_scheme`, ModelOpt `kv_cache_quant_algo`."""
    quantisation = config.get("quantization_config")
    if not isinstance(quantisation, Mapping):
        return False
    return any(quantisation.get(key) not in (None, "", "none") for key in ("kv_cache_scheme", "kv_cache_quant_algo"))
