"""The compatibility record: what two engines must agree on before the first byte of KV moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pdwire.dtypes import DType
from pdwire.errors import LocalProtocolError
from pdwire.layout import UNPACKED, Attention, ByteOrder, Layout
from pdwire.validate import finite, integer, shown, text

RopeValue: TypeAlias = str | int | float | bool | tuple[float, ...] | None

PROTOCOL_VERSION = 1
"""The header's version byte."""

MAX_LAYERS = 65_536
MAX_HEADS = 65_535
"""Also the longest head: what the 16-bit fields of a frame's shape can say."""
MAX_ROPE_KEYS = 64
MAX_ROPE_LIST = 1024
MAX_KV_SCALES = 2048
"""Of 1024 layers; more would not fit a HELLO."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompatRecord:
    """One engine process, as its peer must know it.

    name: which process this is (`prefill-0`); a label for messages, never compared.
    model_digest: of the weights and config.json; tokenizer_digest: of what turns text into token ids.
    rope: position encoding, flat: `theta`, `rope_type`, `factor`, `original_max_position_embeddings`, ...; a key that
    the model's configuration does not have is left out. layers, kv_heads, head_dim: of the whole model.
    dtype: of the KV elements that go over the wire. kv_scales: of a quantised cache, K's and V's of each layer in turn;
    empty where every scale is 1.
    attention: what the model keeps of each token. layout, byte_order: in which order this side writes, or wants, the
    elements. isa_layout: `none`, or the instruction set that this side's blocks are packed for (vLLM on a CPU: `vec`,
    `amx`, `neon`; K is then stored transposed, and only whole blocks can be moved).
    tp_size, tp_rank: tensor parallelism; one connection joins one rank of each side.
    block_tokens: tokens in one block of this side's cache. capacity_tokens: tokens its whole cache holds.
    engine, engine_version, attention_backend: as resolved, not as asked for. transports: that it can speak, by name.
    protocol: of this package; given only to ask "what if".
    Raises LocalProtocolError on a value outside its range.
    """

    name: str
    model_digest: str
    tokenizer_digest: str
    rope: Mapping[str, RopeValue]
    layers: int
    kv_heads: int
    head_dim: int
    dtype: DType
    engine: str
    engine_version: str
    attention_backend: str
    capacity_tokens: int
    transports: tuple[str, ...]
    kv_scales: tuple[float, ...] = ()
    attention: Attention = Attention.DENSE
    layout: Layout = Layout.TOKEN_MAJOR
    byte_order: ByteOrder = ByteOrder.LITTLE
    isa_layout: str = UNPACKED
    tp_size: int = 1
    tp_rank: int = 0
    block_tokens: int = 16
    protocol: int = PROTOCOL_VERSION

    def __post_init__(self) -> None:
        for name in ("name", "model_digest", "tokenizer_digest", "engine", "engine_version", "attention_backend"):
            text(name, getattr(self, name), 128)
        text("isa_layout", self.isa_layout, 32)
        integer("protocol", self.protocol, 1, 255)
        integer("layers", self.layers, 1, MAX_LAYERS)
        integer("kv_heads", self.kv_heads, 1, MAX_HEADS)
        integer("head_dim", self.head_dim, 1, MAX_HEADS)
        integer("tp_size", self.tp_size, 1, 65_535)
        integer("tp_rank", self.tp_rank, 0, self.tp_size - 1)
        integer("block_tokens", self.block_tokens, 1, 1 << 20)
        integer("capacity_tokens", self.capacity_tokens, 1, 0xFFFF_FFFF)
        rank_heads(self.kv_heads, self.tp_size, self.tp_rank)
        if len(self.kv_scales) not in (0, 2 * self.layers):
            raise LocalProtocolError(
                f"kv_scales must be 2 for each of {self.layers} layers, or none: {len(self.kv_scales)}"
            )
        for scale in self.kv_scales:
            finite("kv scale", scale)
        if not 1 <= len(self.transports) <= 16:
            raise LocalProtocolError(f"transports must name 1 to 16: {shown(self.transports)}")
        for transport in self.transports:
            text("transport", transport, 32)
        if len(self.rope) > MAX_ROPE_KEYS:
            raise LocalProtocolError(f"rope must have at most {MAX_ROPE_KEYS} keys: {len(self.rope)}")
        for key, value in self.rope.items():
            check_rope_value(key, value)

    @property
    def rank_kv_heads(self) -> int:
        """KV heads that one rank holds; heads are replicated when there are more ranks than heads."""
        return max(1, self.kv_heads // self.tp_size)

    @property
    def kv_replicas(self) -> int:
        """Ranks that hold the same KV heads."""
        return max(1, self.tp_size // self.kv_heads)

    @property
    def rank_head_range(self) -> range:
        """The KV heads of the whole model that this rank holds."""
        return rank_heads(self.kv_heads, self.tp_size, self.tp_rank)

    @property
    def bytes_per_token(self) -> int:
        """K and V of one token, all layers, on this rank."""
        return 2 * self.layers * self.rank_kv_heads * self.head_dim * self.dtype.itemsize


def rank_heads(kv_heads: int, tp_size: int, tp_rank: int) -> range:
    """Which of the model's KV heads a tensor-parallel rank holds.

    More ranks than heads: neighbours hold replicas of one head, as vLLM's `QKVParallelLinear` deals them out
    (`tp_rank // num_kv_head_replicas`). Raises LocalProtocolError when the sizes do not divide.
    """
    if kv_heads % tp_size and tp_size % kv_heads:
        raise LocalProtocolError(f"tp_size must divide kv_heads {kv_heads} or be a multiple: {tp_size!r}")
    held, replicas = max(1, kv_heads // tp_size), max(1, tp_size // kv_heads)
    first = integer("tp_rank", tp_rank, 0, tp_size - 1) // replicas * held
    return range(first, first + held)


def check_rope_value(key: str, value: object) -> None:
    """Of `CompatRecord.rope`. Raises LocalProtocolError."""
    name = f"rope {text('rope key', key, 64)}"
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        text(name, value, 128)
    elif isinstance(value, tuple):
        if len(value) > MAX_ROPE_LIST:
            raise LocalProtocolError(f"{name} must have at most {MAX_ROPE_LIST} numbers: {len(value)}")
        for number in value:
            finite(name, number)
    else:
        finite(name, value)
