"""The paged KV cache of a decode process: one tensor, handed out in blocks.

Layout `[layers, 2, slots, kv_heads, head_dim]`, K before V; a slot holds one token of one layer, a block is
`block_tokens` neighbouring slots. This is the canonical order of the KV contract, so a frame's K (or V) of
neighbouring slots is one piece of memory, and a transport can receive into it directly.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pdserve.architecture import Architecture
from pdserve.block_pool import BlockPool, Run
from pdserve.tensors import torch_dtype
from pdserve.transport.segment import Segment
from pdwire import DType, Places

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class BlockTable:
    """Where one sequence's tokens lie:

    token t is in the (t mod block_tokens)-th slot of its (t // block_tokens)-th block.
    """

    runs: tuple[Run, ...]
    block_tokens: int

    @property
    def blocks(self) -> int:
        return sum(run.count for run in self.runs)

    @property
    def capacity(self) -> int:
        """Tokens."""
        return self.blocks * self.block_tokens

    def spans(self, first: int, count: int) -> list[tuple[int, int]]:
        """The slots of tokens first..first+count-1, in order, as (slot, how many) of neighbouring ones.

        Raises IndexError when the range is not inside the table.
        """
        if first < 0 or count < 0 or first + count > self.capacity:
            raise IndexError(f"tokens {first}..{first + count - 1} are outside a table of {self.capacity}")
        spans: list[tuple[int, int]] = []
        for run in self.runs:
            length = run.count * self.block_tokens
            if count and first < length:
                here = min(count, length - first)
                spans.append((run.start * self.block_tokens + first, here))
                first, count = length, count - here
            first -= length
        return spans


class KvCache:
    """Thread-safe in its bookkeeping; the tensor's slots belong to whoever holds their table."""

    def __init__(
        self,
        shape: Architecture,
        dtype: DType,
        device: str,
        *,
        block_tokens: int,
        memory_bytes: int,
        shared: bool = False,
    ) -> None:
        """shared: lay it into a segment that prefill processes of this host may map, if it is on the CPU.

        Raises ValueError when memory_bytes holds not even one block, OSError when there is no memory to share.
        """
        block_bytes = block_tokens * shape.kv_bytes_per_token(dtype.itemsize)
        self.blocks = memory_bytes // block_bytes
        if self.blocks < 1:
            raise ValueError(
                f"kv_memory_bytes {memory_bytes} is less than one block of {block_tokens} tokens ({block_bytes} bytes)"
            )
        self.block_tokens = block_tokens
        self.shape = shape
        self.dtype = dtype
        slots = self.blocks * block_tokens
        self.segment = Segment.create(self.blocks * block_bytes) if shared and device == "cpu" else None
        self.tensor = self._zeros((shape.layers, 2, slots, shape.kv_heads, shape.head_dim), device)
        self._pool = BlockPool(self.blocks)
        self._lock = threading.Lock()
        self._taken: set[BlockTable] = set()

    def _zeros(self, size: tuple[int, ...], device: str) -> torch.Tensor:
        import torch

        dtype = torch_dtype(self.dtype)
        if self.segment is None:
            return torch.zeros(size, dtype=dtype, device=device)
        return torch.frombuffer(self.segment.view, dtype=dtype, count=math.prod(size)).view(size)

    def places(self, request: bytes, table: BlockTable, tokens: int) -> Places:
        """Where the first `tokens` tokens of a table lie in the segment. Raises LocalProtocolError for too many runs."""
        slot_bytes = self.shape.kv_heads * self.shape.head_dim * self.dtype.itemsize
        plane = self.blocks * self.block_tokens * slot_bytes
        runs = tuple((slot * slot_bytes, count) for slot, count in table.spans(0, tokens))
        return Places(request=request, layer_stride=2 * plane, part_stride=plane, runs=runs)

    @property
    def capacity_tokens(self) -> int:
        return self.blocks * self.block_tokens

    @property
    def free_blocks(self) -> int:
        with self._lock:
            return self._pool.free

    def bytes_of(self, table: BlockTable) -> int:
        """K and V of all its slots, all layers."""
        return table.capacity * self.shape.kv_bytes_per_token(self.dtype.itemsize)

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def allocate(self, tokens: int) -> BlockTable | None:
        """Blocks for that many tokens, or None when too few are free."""
        with self._lock:
            runs = self._pool.take(self.blocks_for(tokens))
            if runs is None:
                return None
            table = BlockTable(tuple(runs), self.block_tokens)
            self._taken.add(table)
            return table

    def release(self, table: BlockTable) -> None:
        """Raises ValueError for a table that is not out: blocks given back twice would belong to two requests."""
        with self._lock:
            if table not in self._taken:
                raise ValueError(f"{table} is not allocated")
            self._taken.remove(table)
            self._pool.give_back(list(table.runs))

    def read(self, layer: int, which: int, spans: list[tuple[int, int]]) -> torch.Tensor:
        """[tokens, kv_heads, head_dim] of K (which = 0) or V (1):

        a view when the spans are one, else a gathered copy.
        """
        import torch

        plane = self.tensor[layer, which]
        pieces = [plane[slot : slot + count] for slot, count in spans]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def check_integrity(self) -> None:
        """Every block is free or in exactly one table. Raises ValueError."""
        with self._lock:
            self._pool.check_integrity([run for table in self._taken for run in table.runs])
