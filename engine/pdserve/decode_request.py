"""One request as decode knows it, from its reservation to its last token."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pdserve.errors import EngineError
from pdserve.kv_receiver import Reservation
from pdserve.ledger import HoldState
from pdserve.sampling import Sampling

FinishReason: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True)
class NewTokens:
    token_ids: list[int]


@dataclass(frozen=True)
class Finished:
    reason: FinishReason


@dataclass(frozen=True)
class Failed:
    error: EngineError


DecodeEvent: TypeAlias = NewTokens | Finished | Failed


@dataclass
class Work:
    """What the router asks for once the reservation stands.

    emit is called from the engine's thread and must not block.
    """

    token_ids: list[int]
    sampling: Sampling
    recompute: bool
    emit: Callable[[DecodeEvent], None]


@dataclass
class DecodeRequest:
    """From its reservation on.

    tokens: prompt and answer so far. computed: how many of them have KV in the cache. deadline: `time.monotonic()`
    seconds, until the first token.
    """

    request: bytes
    prompt_tokens: int
    max_tokens: int
    deadline: float
    reservation: Reservation | None = None
    work: Work | None = None
    tokens: list[int] = field(default_factory=list)
    computed: int = 0
    running: bool = False
    ended: bool = False  # its listener has been told; its blocks may be in a step that is still at work
    last_token_at: float = field(default_factory=time.monotonic)
    arrived: float = field(default_factory=time.monotonic)

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.max_tokens

    @property
    def pending(self) -> int:
        """Tokens whose KV is still to be computed: 1 in normal decoding, more while a prompt is recomputed."""
        return len(self.tokens) - self.computed

    @property
    def ready(self) -> bool:
        """May join the batch: somebody listens, and the KV is whole or is to be computed here."""
        if self.work is None or self.reservation is None:
            return False
        return self.work.recompute or self.reservation.first_token is not None

    @property
    def state(self) -> HoldState:
        """For the ledger."""
        if self.reservation is None:
            return HoldState.WAITING
        if self.ended:
            return HoldState.LETTING_GO
        if self.running:
            return HoldState.GENERATING
        if self.reservation.settled:
            return HoldState.WHOLE
        return HoldState.RECEIVING if self.reservation.figures.first_frame_at else HoldState.RESERVED

    @property
    def lease(self) -> float | None:
        """When it is given up, whatever happens. None once it runs: then every step brings it nearer to its end."""
        return None if self.running or self.ended else self.deadline

    def finish_reason(self, eos_ids: frozenset[int]) -> FinishReason | None:
        """Judged on the newest token."""
        assert self.work is not None
        if self.tokens[-1] in eos_ids and not self.work.sampling.ignore_eos:
            return "stop"
        return "length" if len(self.tokens) >= self.total_tokens else None
