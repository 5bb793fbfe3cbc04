"""How much host memory the frames on their way may take together, beside the memory that KV is for."""

from __future__ import annotations

import threading
import time

STAGED_BYTES = 128 << 20
"""Of one cache: two of the largest frames that are taken, or hundreds of usual ones."""

WAIT_S = 2.0
"""For room. Meanwhile the connection's frames wait in its socket; longer, and closing the listener would wait for it."""


class StagingRoom:
    """Room for frames, given out before memory is taken for them. Thread-safe."""

    def __init__(self, size: int = STAGED_BYTES, wait_s: float = WAIT_S) -> None:
        self._size = size
        self._wait_s = wait_s
        self._taken = 0
        self._changed = threading.Condition()

    @property
    def taken(self) -> int:
        with self._changed:
            return self._taken

    def take(self, size: int) -> bool:
        """False: there was none in time. A frame that is larger than all of it is taken alone."""
        deadline = time.monotonic() + self._wait_s
        with self._changed:
            while self._taken and self._taken + size > self._size:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            self._taken += size
            return True

    def give_back(self, size: int) -> None:
        with self._changed:
            self._taken -= size
            self._changed.notify_all()
