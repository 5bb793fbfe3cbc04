"""The nodes of one pool as the router sees them: how busy each is, and which to leave alone for a moment."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pdserve.config import Peer

# How long a peer that did not answer is passed over while another one is there.
_COOL_SECONDS = 1.0
# How long one that took a connection and said nothing is left alone altogether: each try of it costs a request a share
# of its deadline, where one that refuses costs nothing.
_SILENT_SECONDS = 10.0


@dataclass(eq=False)
class PoolMember:
    """in_flight: this router's requests in work there. cool_until, silent_until, heard_at: `time.monotonic()` seconds."""

    name: str
    url: str
    in_flight: int = 0
    cool_until: float = 0.0
    silent_until: float = 0.0
    heard_at: float = field(default_factory=time.monotonic)
    last_error: str | None = None

    @property
    def cooling(self) -> bool:
        return self.cool_until > time.monotonic()

    @property
    def silent(self) -> bool:
        return self.silent_until > time.monotonic()

    @property
    def unheard_s(self) -> float:
        """Seconds since its last sign of life."""
        return time.monotonic() - self.heard_at

    def heard(self) -> None:
        """It answered something, or sent a token."""
        self.heard_at = time.monotonic()
        self.silent_until = 0.0

    def fell_silent(self, reason: str) -> None:
        self.silent_until = time.monotonic() + _SILENT_SECONDS
        self.last_error = reason

    def failed(self, reason: str) -> None:
        self.cool_until = time.monotonic() + _COOL_SECONDS
        self.last_error = reason

    @contextmanager
    def working(self) -> Iterator[None]:
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1


class Pool:
    """Used by the router's event loop alone."""

    def __init__(self, peers: Sequence[Peer]) -> None:
        self.members = [PoolMember(peer.name, peer.url.rstrip("/")) for peer in peers]

    def named(self, name: str) -> PoolMember | None:
        return next((member for member in self.members if member.name == name), None)

    def pick(self, excluded: Collection[PoolMember] = ()) -> PoolMember | None:
        """The least busy of those that answered last; one that did not only when no other is left, a silent one last."""
        candidates = [member for member in self.members if member not in excluded]
        return min(candidates, key=lambda member: (member.silent, member.cooling, member.in_flight), default=None)
