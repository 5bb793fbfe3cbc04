"""Every frame as a value. What they look like as bytes is `codec`'s; when they may be said is `state`'s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TypeAlias

from pdwire.dtypes import DType
from pdwire.errors import LocalProtocolError, RemoteProtocolError, Unauthenticated
from pdwire.limits import MAX_FRAME_TOKENS, Offer
from pdwire.outcome import Conversion
from pdwire.record import CompatRecord
from pdwire.validate import CONNECTION, exactly, finite, integer, request_id, shown, text

U16 = 0xFFFF
U32 = 0xFFFF_FFFF
U64 = 0xFFFF_FFFF_FFFF_FFFF
MAX_REASON = 1000
MAX_META = 16
MAX_META_TEXT = 4000
MAX_RUNS = 4080
"""Runs of one PLACES: what 64 KiB hold."""
_MAX_OFFSET = (1 << 63) - 1

Scalar: TypeAlias = str | int | float | bool | None


class Kind(IntEnum):
    """The header's kind byte."""

    HELLO = 1
    LAYER = 2
    FIRST_TOKEN = 3
    COMPLETE = 4
    ABORT = 5
    CREDIT = 6
    PING = 7
    BYE = 8
    LOCATE = 9
    PLACES = 10
    CHALLENGE = 11
    PROOF = 12
    JOIN = 13

    __hash__ = int.__hash__
    """Members are keys of every table that a frame goes through; the enum's own hash is Python code."""


CONNECTION_KINDS = frozenset({Kind.HELLO, Kind.CREDIT, Kind.PING, Kind.BYE, Kind.CHALLENGE, Kind.PROOF, Kind.JOIN})
"""Kinds that never speak for one request."""


class Part(IntEnum):
    """What a KV body holds of its tokens."""

    KV = 0
    """K of all its tokens, then V of the same tokens, each `[tokens, kv_heads, head_dim]`."""


class Role(StrEnum):
    """Who pushes KV and who takes it. The prefill side opens the connection."""

    PREFILL = "prefill"
    DECODE = "decode"

    __hash__ = str.__hash__  # as for Kind

    @property
    def peer(self) -> Role:
        return Role.DECODE if self is Role.PREFILL else Role.PREFILL


class AbortCode(IntEnum):
    """Why a request, or the connection, ends early. The reason text says it in words."""

    CANCELLED = 1
    """Nobody wants the answer any more."""
    REFUSED = 2
    """The receiver does not know the request, or has no room for this part of it."""
    CHECKSUM = 3
    """A frame arrived with other bytes than were sent."""
    DEADLINE = 4
    """A deadline of `Limits` or of the request passed."""
    INCOMPATIBLE = 5
    """The verdict on the two HELLOs is fatal."""
    PROTOCOL = 6
    """The peer broke the protocol."""
    INTERNAL = 7
    """The side that says it failed."""
    UNAUTHENTICATED = 8
    """The peer did not prove that it holds the deployment's secret."""

    @classmethod
    def of(cls, error: RemoteProtocolError) -> AbortCode:
        """What to give the connection up with after it."""
        return cls.UNAUTHENTICATED if isinstance(error, Unauthenticated) else cls.PROTOCOL


class Security(IntEnum):
    """How far a connection is protected."""

    AUTHENTICATED = 1
    """Both ends are known to each other; what follows the handshake is checksummed, not secret."""
    ENCRYPTED = 2
    """And everything after the two PROOFs is encrypted."""


SECRET_ID_BYTES = 8
NONCE_BYTES = 32
DIGEST_BYTES = 32
"""Of SHA-256, and so of an HMAC."""
MAX_SECRETS = 4
"""That one end takes at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """The first frame of all where there is a secret, said by decode.

    nonce: 32 bytes, new for this connection. secret_ids: of 8 bytes each, those that it takes.
    """

    security: Security
    nonce: bytes
    secret_ids: tuple[bytes, ...]

    def __post_init__(self) -> None:
        exactly("nonce", self.nonce, NONCE_BYTES)
        integer("number of secrets", len(self.secret_ids), 1, MAX_SECRETS)
        for secret_id in self.secret_ids:
            exactly("secret id", secret_id, SECRET_ID_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Who says it holds a secret. hello: HMAC of the body of the HELLO that it will say. mac: see `auth`."""

    secret_id: bytes
    nonce: bytes
    hello: bytes
    mac: bytes

    def __post_init__(self) -> None:
        exactly("secret id", self.secret_id, SECRET_ID_BYTES)
        exactly("nonce", self.nonce, NONCE_BYTES)
        exactly("digest of the hello", self.hello, DIGEST_BYTES)
        exactly("mac", self.mac, DIGEST_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first frame of each side. The prefill side says it first.

    converts: what this side agrees to have converted on the way, each once, in any order. Decode converts it; a
    conversion counts where both have named it.
    """

    role: Role
    record: CompatRecord
    offer: Offer
    converts: tuple[Conversion, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.converts)) != len(self.converts):
            raise LocalProtocolError(f"converts must name each conversion once: {shown(self.converts)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFrame:
    """K and V of one layer and one run of tokens: token positions first_token to first_token + count - 1.

    request: 16 bytes. layer: from 0. kv_heads: those this rank holds. A resend has the same (request, layer,
    first_token) and the same bytes. Raises LocalProtocolError on a value outside its field.
    """

    request: bytes
    layer: int
    first_token: int
    count: int
    dtype: DType
    kv_heads: int
    head_dim: int
    part: Part = Part.KV

    def __post_init__(self) -> None:
        request_id(self.request)
        integer("layer", self.layer, 0, U16)
        integer("token count", self.count, 1, MAX_FRAME_TOKENS)
        integer("first token", self.first_token, 0, U32 - self.count)
        integer("kv heads", self.kv_heads, 1, U16)
        integer("head dim", self.head_dim, 1, U16)

    @property
    def body_bytes(self) -> int:
        return 2 * self.part_bytes

    @property
    def part_bytes(self) -> int:
        """Bytes of K alone, which are also those of V alone."""
        return self.count * self.kv_heads * self.head_dim * self.dtype.itemsize

    @property
    def end_token(self) -> int:
        """The position after the last token."""
        return self.first_token + self.count

    def __str__(self) -> str:
        return f"request {self.request.hex()} layer {self.layer} tokens {self.first_token}..{self.end_token - 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken:
    """All KV of the request has been sent, and this is the token that follows the prompt.

    prompt_tokens: every layer has KV of positions 0 to prompt_tokens - 1; the receiver checks that all landed.
    logprob: natural logarithm. finish_reason: set when the first token already ends the answer (`stop`, `length`).
    meta: at most 16 small values for the two engines (text so far, timings); pdwire does not read them.
    """

    request: bytes
    token: int
    prompt_tokens: int
    logprob: float | None = None
    finish_reason: str | None = None
    meta: Mapping[str, Scalar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        request_id(self.request)
        integer("token", self.token, 0, U32)
        integer("prompt tokens", self.prompt_tokens, 1, U32)
        if self.logprob is not None:
            finite("logprob", self.logprob)
        if self.finish_reason is not None:
            text("finish reason", self.finish_reason, 32)
        if len(self.meta) > MAX_META:
            raise LocalProtocolError(f"meta must have at most {MAX_META} keys: {len(self.meta)}")
        for key, value in self.meta.items():
            text("meta key", key, 64)
            _scalar(f"meta {key}", value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """The receiver has every frame of the request, verified, and its first token."""

    request: bytes

    def __post_init__(self) -> None:
        request_id(self.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Locate:
    """Where does the request's KV go? Said before its first frame, over a transport that writes into decode's memory."""

    request: bytes

    def __post_init__(self) -> None:
        request_id(self.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the request's KV goes, in the memory that decode shares.

    runs: (offset, tokens) of K of layer 0, in order of the tokens; those of one run lie one after another. K of a later
    layer lies `layer_stride` bytes further for each layer, V `part_stride` bytes after K.
    """

    request: bytes
    layer_stride: int
    part_stride: int
    runs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        request_id(self.request)
        integer("layer stride", self.layer_stride, 0, _MAX_OFFSET)
        integer("part stride", self.part_stride, 0, _MAX_OFFSET)
        integer("number of runs", len(self.runs), 1, MAX_RUNS)
        for offset, tokens in self.runs:
            integer("offset", offset, 0, _MAX_OFFSET)
            integer("tokens of a run", tokens, 1, U32)

    def spans(self, frame: LayerFrame) -> list[tuple[int, int]]:
        """(offset, bytes) of the frame's body, in order: K of its tokens, then V. Raises LocalProtocolError."""
        token_bytes = frame.part_bytes // frame.count
        first, left = frame.first_token, frame.count
        spans: list[tuple[int, int]] = []
        for offset, tokens in self.runs:
            if left and first < tokens:
                here = min(left, tokens - first)
                spans.append((offset + first * token_bytes, here * token_bytes))
                first, left = tokens, left - here
            first -= tokens
        if left:
            raise LocalProtocolError(
                f"{frame} is beyond the {sum(tokens for _, tokens in self.runs)} tokens of its places"
            )
        start = frame.layer * self.layer_stride
        return [(start + part * self.part_stride + offset, size) for part in (0, 1) for offset, size in spans]


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """The request ends here. Answered by the peer's own ABORT, after which nothing of it is on its way.

    request: all zero for the whole connection, which then closes.
    """

    request: bytes
    code: AbortCode
    reason: str

    def __post_init__(self) -> None:
        if self.request != CONNECTION:
            request_id(self.request)
        text("abort reason", self.reason, MAX_REASON)

    @classmethod
    def because(cls, code: AbortCode, reason: object, request: bytes = CONNECTION) -> Abort:
        """From any text: made one printable line of bounded length."""
        line = " ".join("".join(c if c.isprintable() else " " for c in str(reason)).split())
        return cls(request=request, code=code, reason=line[:MAX_REASON] or code.name.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """The prefill side may have sent, since HELLO, KV frames of `total` bytes together. Never shrinks."""

    total: int

    def __post_init__(self) -> None:
        integer("credit total", self.total, 0, U64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """This stream is one of several that make a connection; decode repeats what it agrees to.

    session: 16 bytes that prefill has drawn at random, the same on all streams. stream: 0 on the one that carries frames;
    the others carry pieces of its bodies and nothing else. streams: on stream 0, how many prefill wants and, in the
    answer, how many there will be; on the others the latter.
    """

    session: bytes
    stream: int
    streams: int

    def __post_init__(self) -> None:
        request_id(self.session)
        integer("streams", self.streams, 1, U16)
        integer("stream", self.stream, 0, self.streams - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """Still here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    """Nothing more will be sent; unfinished requests end. What tells a clean close from a cut."""


RequestFrame: TypeAlias = LayerFrame | FirstToken | Complete | Abort | Locate | Places
Frame: TypeAlias = Challenge | Proof | Hello | Join | RequestFrame | Credit | Ping | Bye

KIND_OF: Mapping[type[Frame], Kind] = {
    Hello: Kind.HELLO,
    LayerFrame: Kind.LAYER,
    FirstToken: Kind.FIRST_TOKEN,
    Complete: Kind.COMPLETE,
    Abort: Kind.ABORT,
    Credit: Kind.CREDIT,
    Ping: Kind.PING,
    Bye: Kind.BYE,
    Locate: Kind.LOCATE,
    Places: Kind.PLACES,
    Challenge: Kind.CHALLENGE,
    Proof: Kind.PROOF,
    Join: Kind.JOIN,
}


def _scalar(name: str, value: object) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        if len(value) > MAX_META_TEXT:
            raise LocalProtocolError(f"{name} must be at most {MAX_META_TEXT} characters: {shown(value)}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise LocalProtocolError(f"{name} must be valid Unicode: {shown(value)}") from None
    elif isinstance(value, int):
        integer(name, value, -(1 << 63), U64)
    else:
        finite(name, value)
