"""What one request cost, for the client that asks and for the demo: transfer, time to first token, inter-token
latency.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any

from pdserve.calls import PrefillFigures


@dataclass
class RequestFigures:
    """Filled while the request runs. Times are `time.monotonic()` seconds."""

    prompt_tokens: int
    layers: int
    arrived: float = field(default_factory=time.monotonic)
    path: str = "split"
    prefill: str | None = None
    decode: str | None = None
    attempts: int = 0
    resumed: int = 0
    transfer: PrefillFigures | None = None
    token_times: list[float] = field(default_factory=list)

    @property
    def ttft_seconds(self) -> float | None:
        return self.token_times[0] - self.arrived if self.token_times else None

    @property
    def gaps(self) -> list[float]:
        """Seconds between neighbouring tokens."""
        return [later - earlier for earlier, later in zip(self.token_times, self.token_times[1:], strict=False)]

    def report(self) -> dict[str, Any]:
        """docs/engine.md, "Public HTTP". What did not happen is null, never 0."""
        transfer, gaps = self.transfer, self.gaps
        moved = transfer.kv_bytes if transfer else 0
        seconds = transfer.kv_seconds if transfer else 0.0
        return {
            "path": self.path,
            "prefill": self.prefill,
            "decode": self.decode,
            "attempts": self.attempts,
            "resumed": self.resumed,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": len(self.token_times),
            "layers": self.layers,
            "frames": transfer.frames if transfer else 0,
            "kv_bytes": moved,
            "kv_seconds": seconds,
            "kv_gb_per_s": moved / seconds / 1e9 if seconds > 0 else None,
            "kv_exposed_seconds": transfer.kv_exposed_seconds if transfer else 0.0,
            "prefill_seconds": transfer.prefill_seconds if transfer else None,
            "ttft_seconds": self.ttft_seconds,
            "itl_mean_seconds": statistics.fmean(gaps) if gaps else None,
            "itl_p50_seconds": statistics.median(gaps) if gaps else None,
            "itl_max_seconds": max(gaps, default=None),
        }
