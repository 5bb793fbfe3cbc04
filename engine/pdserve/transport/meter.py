"""What the transports of this process count by themselves; `metrics` shows it. Thread-safe."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """Since the process began. credit_waits, credit_wait_seconds: of pushes that waited for the peer's credit."""

    checksum_failures: int = 0
    unauthenticated: int = 0
    credit_waits: int = 0
    credit_wait_seconds: float = 0.0


class Meter:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checksum_failures = 0
        self._unauthenticated = 0
        self._credit_waits = 0
        self._credit_wait_seconds = 0.0

    def checksum_failed(self) -> None:
        with self._lock:
            self._checksum_failures += 1

    def refused_a_stranger(self) -> None:
        with self._lock:
            self._unauthenticated += 1

    def waited_for_credit(self, seconds: float) -> None:
        with self._lock:
            self._credit_waits += 1
            self._credit_wait_seconds += seconds

    @property
    def counts(self) -> Counts:
        with self._lock:
            return Counts(self._checksum_failures, self._unauthenticated, self._credit_waits, self._credit_wait_seconds)


METER = Meter()
"""Of this process: a transport has no other place that outlives its connections."""
