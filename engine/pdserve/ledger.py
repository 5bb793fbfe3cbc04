"""What an engine process holds for whom, since when, until when: `GET /v1/ledger`.

There is no book beside the things themselves, which could be wrong: each engine lists what it really holds. When no
request is in work, every list is empty; anything else is a leak.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

SCHEMA = "pdserve.ledger/1"


class HoldState(StrEnum):
    """Where the request stands. What ends each state, at the latest, is `ENDS`."""

    WAITING = "waiting"
    RESERVED = "reserved"
    RECEIVING = "receiving"
    WHOLE = "whole"
    GENERATING = "generating"
    LETTING_GO = "letting go"
    COMPUTING = "computing"
    SENDING = "sending"


ENDS = {
    HoldState.WAITING: "the request's deadline",
    HoldState.RESERVED: "the request's deadline",
    HoldState.RECEIVING: "the request's deadline, or `request_s` without a frame",
    HoldState.WHOLE: "the request's deadline",
    HoldState.GENERATING: "its last token, or the end of the stream that its router reads",
    HoldState.LETTING_GO: "the end of the step or frame in work (`frame_s`)",
    HoldState.COMPUTING: "the request's deadline",
    HoldState.SENDING: "the request's deadline, or `complete_s` after FIRST_TOKEN",
}


@dataclass(frozen=True, slots=True)
class Held:
    """One request. peer: for whom besides the request's router: the KV address it is pushed to, where it is known.

    kv_bytes: of memory. age_s: since it was taken on. left_s: until its lease ends; None where an event ends it.
    Ages, not times of day: clocks of two nodes are never compared.
    """

    request: str
    state: HoldState
    kv_bytes: int
    age_s: float
    left_s: float | None
    peer: str | None = None

    @classmethod
    def since(
        cls,
        request: bytes,
        state: HoldState,
        size: int,
        began: float,
        until: float | None,
        peer: str | None = None,
    ) -> Held:
        """began, until: `time.monotonic()` seconds."""
        now = time.monotonic()
        left = None if until is None else round(until - now, 3)
        return cls(request.hex(), state, size, round(now - began, 3), left, peer)


def document(role: str, name: str, held: Iterable[Held]) -> dict[str, Any]:
    """The answer of `/v1/ledger`."""
    entries: list[dict[str, Any]] = [asdict(one) | {"ends": ENDS[one.state]} for one in held]
    return {
        "schema": SCHEMA,
        "role": role,
        "name": name,
        "requests": len(entries),
        "kv_bytes": sum(entry["kv_bytes"] for entry in entries),
        "held": entries,
    }
