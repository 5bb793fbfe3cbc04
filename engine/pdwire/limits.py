"""How much and how long. Sizes are announced in HELLO and bind the peer; times bind ourselves."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pdwire.errors import LocalProtocolError
from pdwire.validate import finite, integer

MAX_CONTROL_BYTES = 64 * 1024
"""Length of a whole control frame, HELLO included; holds before anything is negotiated."""

MAX_HANDSHAKE_BYTES = 8 * 1024
"""Length of a whole frame from a peer who has not proved yet that it holds the secret."""

MAX_FRAME_TOKENS = 65_535
"""Tokens in one KV frame: what the 16-bit field of the header's shape can say."""

_SIZES = {
    "max_frame_bytes": (MAX_CONTROL_BYTES, 1 << 40),
    "credit_bytes": (MAX_CONTROL_BYTES, 1 << 48),
    "max_requests": (1, 1 << 20),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one end announces in HELLO; the other keeps to it.

    max_frame_bytes: the longest frame it takes, head included.
    credit_bytes: KV frame bytes that may be on their way to it, not yet landed. At least one longest frame.
    max_requests: unfinished requests on one connection.
    idle_s: seconds of silence after which it gives the connection up; the other speaks three times as often.
    """

    max_frame_bytes: int = 64 << 20
    credit_bytes: int = 128 << 20
    max_requests: int = 2000
    idle_s: float = 15.0

    def __post_init__(self) -> None:
        for name, (low, high) in _SIZES.items():
            integer(name, getattr(self, name), low, high)
        for field in fields(self):
            if field.name.endswith("_s"):
                _seconds(field.name, getattr(self, field.name))
        if self.credit_bytes < self.max_frame_bytes:
            raise LocalProtocolError(
                f"credit_bytes must cover one frame of {self.max_frame_bytes} bytes: {self.credit_bytes!r}"
            )

    @property
    def ping_s(self) -> float:
        """How often the end that announced this wants to hear something."""
        return self.idle_s / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Offer):
    """The whole of what one end allows: its offer, and the deadlines, in seconds, that it keeps to itself.

    hello_s: from the start of the connection to both HELLOs. frame_s: from a frame's head to its last byte.
    request_s: between two frames of one request. complete_s: from FIRST_TOKEN to its COMPLETE.
    abort_s: from an ABORT to the peer's own.
    """

    hello_s: float = 5.0
    frame_s: float = 10.0
    request_s: float = 60.0
    complete_s: float = 10.0
    abort_s: float = 5.0

    @property
    def offer(self) -> Offer:
        return Offer(**{field.name: getattr(self, field.name) for field in fields(Offer)})

    @property
    def tick_s(self) -> float:
        """How often a connection must look at the clock so that no deadline is noticed much too late."""
        return min(self.ping_s, self.request_s / 4, self.complete_s / 4, self.abort_s / 4, 1.0)


def _seconds(name: str, value: object) -> None:
    if not 0.01 <= finite(name, value) <= 86_400:
        raise LocalProtocolError(f"{name} must be 0.01 to 86400 s: {value!r}")
