"""What kind of KV it is, and in which order its elements lie. The contract's own form is the first of each."""

from __future__ import annotations

from enum import StrEnum


class Attention(StrEnum):
    """What the model keeps of each token. Only `dense` is what the contract carries."""

    DENSE = "dense"
    """K and V of every token in every layer, `[kv_heads, head_dim]` each (MHA, GQA and MQA alike)."""
    MLA = "mla"
    """One compressed vector for all heads, and no V (DeepSeek, Kimi)."""
    SPARSE_MLA = "sparse-mla"
    """MLA with an index cache beside it (DeepSeek V3.2)."""
    SINKS = "sinks"
    """K and V beside a learned sink for each head, in layers of two kinds (gpt-oss)."""
    SLIDING_WINDOW = "sliding-window"
    """Some layers keep only the last tokens (Gemma 3, Mistral 7B v0.1)."""
    CHUNKED = "chunked"
    """Some layers keep only the tokens of one chunk (Llama 4)."""
    HYBRID = "hybrid"
    """Some layers keep a recurrent state instead of tokens (Qwen3.5, Jamba, Nemotron-H)."""
    ENCODER_DECODER = "encoder-decoder"
    """Decoder layers keep the encoder's K and V as well (T5, Whisper)."""


class Layout(StrEnum):
    """Axes of K, and of V, from the slowest to the fastest."""

    TOKEN_MAJOR = "token-major"
    """`[tokens, kv_heads, head_dim]`; vLLM calls it NHD and LBNHC."""
    HEAD_MAJOR = "head-major"
    """`[kv_heads, tokens, head_dim]`; vLLM calls it HND and LBHNC."""


class ByteOrder(StrEnum):
    """Of each element."""

    LITTLE = "little"
    BIG = "big"


UNPACKED = "none"
"""`isa_layout` of an engine that does not pack its cache for one instruction set."""
