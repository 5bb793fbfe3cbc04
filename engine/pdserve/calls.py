"""The bodies of the calls between router, prefill and decode; both ends read and write them through these."""

import time
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from pdserve.sampling import Sampling

RequestId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
# A day is longer than any wait; the bound keeps infinities and typing errors out of timers.
Seconds = Annotated[float, Field(gt=0.0, le=86_400.0, allow_inf_nan=False)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]


class _Call(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Ticket(_Call):
    """Decode's leave to push one request's KV."""

    request_id: RequestId
    address: str
    prompt_tokens: int = Field(ge=1)


class _RequestCall(_Call):
    request_id: RequestId

    @property
    def request(self) -> bytes:
        return bytes.fromhex(self.request_id)


class _TimedCall(_RequestCall):
    """deadline_s: what is left when the call is made; clocks of two nodes are never compared."""

    deadline_s: Seconds

    def deadline(self) -> float:
        """On this process's `time.monotonic()`."""
        return time.monotonic() + self.deadline_s


class PrefillCall(_TimedCall):
    token_ids: TokenIds
    sampling: Sampling
    ticket: Ticket


class ReserveCall(_TimedCall):
    prompt_tokens: int = Field(ge=1)
    max_tokens: int = Field(ge=1)


class GenerateCall(_RequestCall):
    """The reservation's deadline holds until the first token; afterwards the caller bounds its own waiting."""

    token_ids: TokenIds
    sampling: Sampling
    recompute: bool = False


class AbortCall(_RequestCall):
    reason: str = Field(default="aborted", max_length=200)


class CaptureCall(_Call):
    """What ends a capture, whichever comes first; 0 transfers for as many as come."""

    max_bytes: int = Field(default=256 << 20, ge=64 << 10, le=1 << 40)
    max_transfers: int = Field(default=0, ge=0)
    seconds: Seconds = 60.0


class PrefillFigures(_Call):
    """Seconds: on the link; on the link after computing had ended; computing; waiting for the engine."""

    frames: int
    kv_bytes: int
    kv_seconds: float
    kv_exposed_seconds: float
    prefill_seconds: float
    queue_seconds: float


class PrefillAnswer(_Call):
    request_id: RequestId
    first_token: int
    figures: PrefillFigures
