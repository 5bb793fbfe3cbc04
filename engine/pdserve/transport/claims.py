"""Which connection a request belongs to: the one that began it, until it has ended there.

A request id is no secret between the prefill sides of one deployment. Without this, a second connection could end a
request while the first is still writing it, and the blocks would be given away under its hands.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable


class Claims:
    """Of one listener. Each session claims what it is about to ask its sink for. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[bytes, object] = {}

    def take(self, request: bytes, session: object) -> bool:
        """Whether the request is this session's now; False: it is another's."""
        with self._lock:
            return self._owners.setdefault(request, session) is session

    def give_back(self, requests: Iterable[bytes], session: object) -> None:
        """What is another session's stays so."""
        with self._lock:
            for request in requests:
                if self._owners.get(request) is session:
                    del self._owners[request]

    def end(self, session: object) -> None:
        """The session is over, and its sink has been told so."""
        with self._lock:
            mine = [request for request, owner in self._owners.items() if owner is session]
        self.give_back(mine, session)
