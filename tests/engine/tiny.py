"""Model directories of a few thousand random weights, made on the spot: every shape, no download."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONTEXT = 256
_COMMON: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
    "tie_word_embeddings": True,
    # Wide enough that two tokens' logits are far apart: greedy runs must not hang on rounding.
    "initializer_range": 0.3,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama"},
    "llama-mha": {"model_type": "llama", "num_key_value_heads": 4, "tie_word_embeddings": False},
    "llama-mqa-wide": {"model_type": "llama", "num_key_value_heads": 1, "head_dim": 32},
    "llama3-rope": {
        "model_type": "llama",
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
    "qwen2": {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 4096},
    "qwen3": {"model_type": "qwen3", "head_dim": 24},
    "mistral": {"model_type": "mistral", "sliding_window": None},
}
CHAT_TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant: {% endif %}"
)


def make_model(directory: Path, family: str = "llama", seed: int = 0) -> Path:
    """Writes config, safetensors and a byte-level tokenizer with a chat template into `directory`."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    tokens = make_tokenizer(directory)
    settings = {**_COMMON, "vocab_size": tokens, **FAMILIES[family]}
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    torch.manual_seed(seed)
    AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    return directory


def make_tokenizer(directory: Path) -> int:
    """One token a byte, and a few merges, so that a character may span tokens. Returns the vocabulary's size."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<s>", "</s>", *alphabet])}
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    settings["chat_template"] = CHAT_TEMPLATE
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return len(vocabulary)
