"""Where a frame's bytes go: straight into the cache when the CPU can write it, else through a host buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from pdserve.kv_cache import BlockTable, KvCache
from pdserve.staging import StagingRoom
from pdserve.tensors import byte_array, byte_view, torch_dtype
from pdwire import DType, LayerFrame

if TYPE_CHECKING:
    import torch


class Landing(Protocol):
    def room(self, frame: LayerFrame) -> bool:
        """Sets memory aside that the frame needs beside its place; may wait for it, so hold no lock. False: none is free.

        Followed by `land` or `forget` of the frame, whether or not there was a call of `views` between.
        """
        ...

    def views(self, table: BlockTable, frame: LayerFrame) -> Sequence[memoryview]:
        """Writable byte views that take the frame's body in order: K of its tokens, then V. After `room`."""
        ...

    def land(self, table: BlockTable, frame: LayerFrame) -> None:
        """The views are filled and verified: the cache holds the frame when this returns.

        Raises OverflowError where the cache's dtype cannot hold its values. Whatever it raises, the frame is forgotten.
        """
        ...

    def forget(self, frame: LayerFrame) -> None:
        """The views will never be filled."""
        ...


def landing_for(cache: KvCache) -> Landing:
    return DirectLanding(cache) if cache.tensor.device.type == "cpu" else StagedLanding(cache)


class DirectLanding:
    """The views are the cache's own memory, but for frames of another dtype than the cache's: those are staged."""

    def __init__(self, cache: KvCache) -> None:
        self._dtype = cache.dtype
        self._staged = StagedLanding(cache)
        # [layers, 2, slots, bytes of a slot], over the whole cache.
        self._bytes = byte_array(cache.tensor.flatten(3))

    def room(self, frame: LayerFrame) -> bool:
        return frame.dtype is self._dtype or self._staged.room(frame)

    def views(self, table: BlockTable, frame: LayerFrame) -> Sequence[memoryview]:
        if frame.dtype is not self._dtype:
            return self._staged.views(table, frame)
        planes = self._bytes[frame.layer]
        return [planes[which, slot : slot + count].data.cast("B") for which, slot, count in _targets(table, frame)]

    def land(self, table: BlockTable, frame: LayerFrame) -> None:
        if frame.dtype is not self._dtype:
            self._staged.land(table, frame)

    def forget(self, frame: LayerFrame) -> None:
        if frame.dtype is not self._dtype:
            self._staged.forget(frame)


class StagedLanding:
    """A host buffer per frame on its way, copied to the device once it has verified; converted there to the cache's dtype.

    At most one a request at a time, and of all requests together no more than `staging` has room for. Widening is exact;
    narrowing rounds to nearest, ties to even, as `convert.cast`; but a NaN may lose its sign.
    """

    def __init__(self, cache: KvCache, staging: StagingRoom | None = None) -> None:
        self._cache = cache
        self._staging = staging or StagingRoom()
        self._buffers: dict[LayerFrame, torch.Tensor] = {}

    def room(self, frame: LayerFrame) -> bool:
        return self._staging.take(frame.body_bytes)

    def views(self, table: BlockTable, frame: LayerFrame) -> Sequence[memoryview]:
        import torch

        buffer = torch.empty(
            2,
            frame.count,
            frame.kv_heads,
            frame.head_dim,
            dtype=torch_dtype(frame.dtype),
            pin_memory=self._cache.tensor.is_cuda,
        )
        self._buffers[frame] = buffer
        return [byte_view(buffer)]

    def land(self, table: BlockTable, frame: LayerFrame) -> None:
        buffer = self._buffers[frame]
        taken, lost = [0, 0], 0
        try:
            for which, slot, count in _targets(table, frame):
                start = taken[which]
                source = buffer[which, start : start + count]
                target = self._cache.tensor[frame.layer, which, slot : slot + count]
                target.copy_(source)
                if self._cache.dtype is DType.FLOAT16 and frame.dtype is not DType.FLOAT16:
                    lost += int(target.isinf().sum()) - int(source.isinf().sum())
                taken[which] += count
        finally:
            del buffer
            self.forget(frame)
        if lost:
            raise OverflowError(f"{lost} of its values are beyond what {self._cache.dtype.label} can hold")

    def forget(self, frame: LayerFrame) -> None:
        self._buffers.pop(frame, None)
        self._staging.give_back(frame.body_bytes)


def _targets(table: BlockTable, frame: LayerFrame) -> Iterator[tuple[int, int, int]]:
    """(0 for K or 1 for V, slot, how many neighbouring slots), in the order of the body."""
    for which in (0, 1):
        for slot, count in table.spans(frame.first_token, frame.count):
            yield which, slot, count
