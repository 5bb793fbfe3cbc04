"""What is moved: KV of one request, as prefill pushes it, from one piece of memory into another."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pdserve.transport.segment import Segment
from pdwire import CompatRecord, DType, LayerFrame, Places

GIB = 1 << 30


@dataclass(frozen=True)
class Workload:
    """KV `[layers, 2, tokens, kv_heads, head_dim]`, in frames of one layer and `chunk` tokens."""

    name: str
    layers: int
    tokens: int
    chunk: int
    kv_heads: int
    head_dim: int
    dtype: str

    @property
    def token_bytes(self) -> int:
        """K, or V, of one token in one layer."""
        return self.kv_heads * self.head_dim * DType.from_label(self.dtype).itemsize

    @property
    def total_bytes(self) -> int:
        return self.layers * 2 * self.tokens * self.token_bytes

    @property
    def frame_bytes(self) -> int:
        return 2 * self.chunk * self.token_bytes

    @property
    def record(self) -> CompatRecord:
        return CompatRecord(
            name="bench",
            model_digest="none",
            tokenizer_digest="none",
            rope={},
            layers=self.layers,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            dtype=DType.from_label(self.dtype),
            engine="bench",
            engine_version="1",
            attention_backend="none",
            capacity_tokens=1 << 30,
            transports=("tcp", "shm", "file"),
        )

    def frames(self, request: bytes) -> Iterator[LayerFrame]:
        """In the order in which prefill computes them: chunk by chunk, layer by layer."""
        for first in range(0, self.tokens, self.chunk):
            for layer in range(self.layers):
                yield LayerFrame(
                    request=request,
                    layer=layer,
                    first_token=first,
                    count=min(self.chunk, self.tokens - first),
                    dtype=DType.from_label(self.dtype),
                    kv_heads=self.kv_heads,
                    head_dim=self.head_dim,
                )

    def places(self, request: bytes) -> Places:
        plane = self.tokens * self.token_bytes
        return Places(request=request, layer_stride=2 * plane, part_stride=plane, runs=((0, self.tokens),))


@dataclass(frozen=True)
class Job:
    """A workload and the two pieces of memory, which every contender's processes map. limit: bytes to move of it."""

    workload: Workload
    source: Segment
    target: Segment
    limit: int

    def pieces(self, number: int) -> Iterator[tuple[LayerFrame, list[tuple[int, int]]]]:
        """Each frame of round `number` with the (offset, bytes) of its K and V, the same in both pieces of memory."""
        request = (number + 1).to_bytes(16, "big")
        places, left = self.workload.places(request), self.limit
        for frame in self.workload.frames(request):
            if left < frame.body_bytes:
                return
            left -= frame.body_bytes
            yield frame, places.spans(frame)

    @property
    def bytes(self) -> int:
        return sum(frame.body_bytes for frame, _ in self.pieces(0))


ONE_GIB = Workload("1 GiB", layers=32, tokens=8192, chunk=2048, kv_heads=8, head_dim=128, dtype="bfloat16")
"""An 8 B Llama's prompt of 8192 tokens: frames of 8 MiB."""


def fill(source: Segment, workload: Workload) -> None:
    """Values as KV has them: bfloat16 of a normal distribution, so that no format may profit from zeros."""
    size = workload.total_bytes
    block = np.random.default_rng(1).standard_normal(1 << 22, dtype=np.float32).view("<u4")
    values = (block >> 16).astype("<u2").view(np.uint8)
    memory = np.frombuffer(source.view, np.uint8)[:size]
    for at in range(0, size, values.size):
        part = memory[at : at + values.size]
        part[:] = values[: part.size]
        part[:8] = np.frombuffer(np.uint64(at).tobytes(), np.uint8)


def to_json(workload: Workload) -> str:
    return json.dumps(asdict(workload))


def from_json(text: str) -> Workload:
    return Workload(**json.loads(text))


def same(job: Job) -> bool:
    """Whether the target holds, byte for byte, what the source does, as far as the job goes."""
    source, target = (np.frombuffer(memory.view, np.uint8) for memory in (job.source, job.target))
    return all(
        np.array_equal(source[offset : offset + size], target[offset : offset + size])
        for _, spans in job.pieces(0)
        for offset, size in spans
    )


def clear(job: Job) -> None:
    np.frombuffer(job.target.view, np.uint8)[:] = 0


def machine() -> dict[str, str]:
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    return {
        "processor": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "kernel": os.uname().release,
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }
