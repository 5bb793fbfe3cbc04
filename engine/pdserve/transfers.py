"""The last transfers that a decode process took: `GET /v1/transfers`, and one log line for each."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from pdserve.kv_receiver import Reservation
from pdserve.logs import log

SCHEMA = "pdserve.transfers/1"
KEPT = 64


@dataclass(frozen=True, slots=True)
class TransferRecord:
    """at: Unix seconds of its end. failure: None when all of its KV landed and verified. resent: of `frames`."""

    request: str
    at: float
    prompt_tokens: int
    layers: int
    frames: int
    resent: int
    kv_bytes: int
    seconds: float
    gb_per_s: float | None
    failure: str | None


class TransferLog:
    """Thread-safe; keeps the newest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[TransferRecord] = deque(maxlen=KEPT)

    def settled(self, reservation: Reservation) -> TransferRecord:
        figures = reservation.figures
        seconds = figures.settled_at - figures.first_frame_at if figures.first_frame_at else 0.0
        record = TransferRecord(
            request=reservation.request.hex(),
            at=round(time.time(), 3),
            prompt_tokens=reservation.prompt_tokens,
            layers=len(reservation.coverage),
            frames=figures.frames,
            resent=figures.resent,
            kv_bytes=figures.bytes,
            seconds=round(seconds, 6),
            gb_per_s=round(figures.bytes / seconds / 1e9, 3) if seconds > 0 else None,
            failure=reservation.failure,
        )
        with self._lock:
            self._kept.append(record)
        log("kv_received", **{key: value for key, value in asdict(record).items() if key != "at"})
        return record

    def document(self, name: str) -> dict[str, Any]:
        with self._lock:
            kept = list(self._kept)
        return {"schema": SCHEMA, "name": name, "transfers": [asdict(record) for record in reversed(kept)]}
