"""What a contender is: a pair of processes, one that has the KV and one that wants it in its own memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tests.bench.kv.workload import Job


class Receiver(Protocol):
    @property
    def address(self) -> str: ...

    def prepare(self, number: int) -> None:
        """Before the clock starts: what an engine does when it reserves."""
        ...

    def close(self) -> None: ...


class Sender(Protocol):
    def round(self, number: int) -> None:
        """Returns when the receiver has everything in the job's target."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Contender:
    """receive: None for one that is a single process. verified: by itself, every byte, before it says done.

    limit: bytes that it moves in a round, where the whole would take minutes. streams: for the ratio to a raw socket.
    environment: of its two processes.
    """

    name: str
    receive: Callable[[Job], Receiver] | None
    send: Callable[[Job, str], Sender]
    verified: bool = False
    streams: int = 1
    ours: bool = False
    limit: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
