"""What a busy machine left for a process, so that a bound for an idle one can be held to what was possible."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def share_of_a_core(pid: int) -> Iterator[Callable[[], float]]:
    """What the process, which always has something to compute, got of one core in the block; 1 on an idle machine."""
    process, share = psutil.Process(pid), [1.0]

    def spent() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    began, before = time.monotonic(), spent()
    yield lambda: share[0]
    share[0] = min(1.0, (spent() - before) / (time.monotonic() - began))
