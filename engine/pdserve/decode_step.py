"""One step of the running batch:

one token of every sequence that decodes, and at most one chunk of a prompt that is recomputed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pdserve.attention import causal_attention
from pdserve.decode_request import DecodeRequest
from pdserve.kv_cache import KvCache
from pdserve.model import LoadedModel
from pdserve.sampling import sample

if TYPE_CHECKING:
    import torch

# A chunk may lengthen a step by about this much while others stream: far below the second after which a reader notices.
_CHUNK_SECONDS = 0.25
_LEAST_CHUNK_TOKENS = 16
_LEARNING_RATE = 0.2


@dataclass(frozen=True)
class Row:
    """A run of one sequence's tokens in the flat pass."""

    request: DecodeRequest
    first: int
    count: int

    @property
    def end(self) -> int:
        return self.first + self.count

    @property
    def samples(self) -> bool:
        """Whether this row reaches the newest token, so that the next one can be chosen."""
        return self.end == len(self.request.tokens)


class ChunkPace:
    """How long a recompute chunk may be, from how long steps took with and without one.

    A step costs something however short the chunk is, so only what the chunk added is held against its length.
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._tokens = min(_LEAST_CHUNK_TOKENS, largest)
        self._plain_step_s: float | None = None

    def tokens(self, *, alone: bool) -> int:
        """alone: nobody else waits for the step."""
        return self._largest if alone else self._tokens

    def learn(self, chunk: int, seconds: float) -> None:
        """chunk: tokens of it in the step; 1 or less when there was none."""
        if chunk <= 1:
            before = seconds if self._plain_step_s is None else self._plain_step_s
            self._plain_step_s = before + (seconds - before) * _LEARNING_RATE
            return
        added = max(seconds - (self._plain_step_s or 0.0), 1e-3)
        fitting = int(chunk * _CHUNK_SECONDS / added)
        # At most doubled, so that one lucky step cannot cause a long one; never so short that the prompt starves.
        self._tokens = max(min(_LEAST_CHUNK_TOKENS, self._largest), min(fitting, 2 * self._tokens, self._largest))


class _StepContext:
    """Attention context of a flat pass over several sequences in the paged cache."""

    def __init__(self, cache: KvCache, rows: Sequence[Row]) -> None:
        import torch

        self._cache = cache
        self._pieces: list[tuple[slice, list[tuple[int, int]]]] = []
        slots: list[int] = []
        for row in rows:
            assert row.request.reservation is not None
            table = row.request.reservation.table
            for slot, count in table.spans(row.first, row.count):
                slots.extend(range(slot, slot + count))
            self._pieces.append((slice(len(slots) - row.count, len(slots)), table.spans(0, row.end)))
        self._slots = torch.tensor(slots, device=cache.tensor.device)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        import torch

        cache = self._cache
        cache.tensor[layer, 0].index_copy_(0, self._slots, key)
        cache.tensor[layer, 1].index_copy_(0, self._slots, value)
        outputs = [
            causal_attention(query[part], cache.read(layer, 0, spans), cache.read(layer, 1, spans), scale)
            for part, spans in self._pieces
        ]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def plan(running: Sequence[DecodeRequest], pace: ChunkPace) -> list[Row]:
    """Pure. Every sequence with one pending token, and a chunk of the first that has more."""
    rows = [Row(request, request.computed, 1) for request in running if request.pending == 1]
    recomputing = next((request for request in running if request.pending > 1), None)
    if recomputing is not None:
        count = min(recomputing.pending, pace.tokens(alone=not rows))
        rows.append(Row(recomputing, recomputing.computed, count))
    return rows


def step(model: LoadedModel, cache: KvCache, rows: Sequence[Row], pace: ChunkPace) -> list[int]:
    """Computes the rows' KV into the cache. Returns the next token of each row that samples, in order."""
    started = time.monotonic()
    token_ids: list[int] = []
    positions: list[int] = []
    last: list[int] = []
    sampling_rows = [row for row in rows if row.samples]
    for row in rows:
        token_ids += row.request.tokens[row.first : row.end]
        positions += range(row.first, row.end)
        if row.samples:
            last.append(len(token_ids) - 1)
    logits = model.forward(token_ids, positions, _StepContext(cache, rows), last)
    pace.learn(max(row.count for row in rows), time.monotonic() - started)
    works = [row.request.work for row in sampling_rows]
    samplings = [work.sampling for work in works if work is not None]
    return sample(logits, samplings, [row.end for row in sampling_rows])
