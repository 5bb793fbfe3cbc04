"""From logits to a token, so that the same (seed, position) gives the same token wherever and in whatever batch it is
drawn.

There is no generator state: the one random number of a step is a hash of the request's seed and the token's position.
A request that is resumed on another process, or computed beside others, therefore continues exactly as it would have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    import torch


class Sampling(BaseModel):
    """How tokens are chosen. temperature 0 is greedy; top_k 0 and top_p 1 are off. seed: any 64-bit value."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float = Field(default=1.0, ge=0.0, le=100.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=-(1 << 63), lt=1 << 64)
    ignore_eos: bool = False


def uniform(seed: int, position: int) -> float:
    """In [0, 1), 53 bits, the same on every machine. position: index of the token in prompt + answer."""
    material = (seed % (1 << 64)).to_bytes(8, "little") + position.to_bytes(8, "little")
    word = int.from_bytes(hashlib.blake2b(material, digest_size=8, person=b"pdserve.sample").digest(), "little")
    return (word >> 11) / (1 << 53)


def sample(logits: torch.Tensor, samplings: Sequence[Sampling], positions: Sequence[int]) -> list[int]:
    """logits: [rows, vocabulary], any float dtype. One sampling and one position a row. Returns one token id a row."""
    best = logits.argmax(dim=-1).tolist()
    return [
        best[row] if sampling.temperature == 0.0 else _draw(logits[row], sampling, uniform(sampling.seed, position))
        for row, (sampling, position) in enumerate(zip(samplings, positions, strict=True))
    ]


def _draw(logits: torch.Tensor, sampling: Sampling, number: float) -> int:
    """Inverse transform sampling over the kept tokens; logits: [vocabulary]."""
    import torch

    scaled = logits.double() / sampling.temperature
    ids: torch.Tensor | None = None
    if 0 < sampling.top_k < scaled.numel():
        scaled, ids = scaled.topk(sampling.top_k)
    elif sampling.top_p < 1.0:
        scaled, ids = scaled.sort(descending=True)
    cumulative = scaled.softmax(dim=-1).cumsum(dim=-1)
    if sampling.top_p < 1.0:
        # The smallest set whose mass reaches top_p: the token that crosses the line belongs to it.
        kept = int((cumulative < sampling.top_p).sum()) + 1
        cumulative = cumulative[:kept]
    threshold = number * float(cumulative[-1])
    index = min(int(torch.searchsorted(cumulative, threshold, right=True)), cumulative.numel() - 1)
    return index if ids is None else int(ids[index])
