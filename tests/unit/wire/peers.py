"""Two ends of a connection with nothing between them, a clock that a test turns, and frames of every kind."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id

from pdwire import (
    CONNECTION,
    Abort,
    AbortCode,
    Bye,
    Complete,
    Connection,
    Credit,
    DType,
    FirstToken,
    Frame,
    Hello,
    LayerFrame,
    Limits,
    Offer,
    Ping,
    Received,
    Role,
    seal,
)
from pdwire.frames import U32, U64

TINY_PREFILL = replace(PREFILL, kv_heads=1, head_dim=2)
TINY_DECODE = replace(DECODE, kv_heads=1, head_dim=2)
"""For tests that try every bit or every split: a token has 16 bytes a layer."""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Peers:
    """prefill and decode, past their HELLOs unless greet is False."""

    def __init__(self, limits: Limits | None = None, *, greet: bool = True, tiny: bool = False) -> None:
        self.clock = Clock()
        self.prefill = Connection(Role.PREFILL, TINY_PREFILL if tiny else PREFILL, limits, clock=self.clock)
        self.decode = Connection(Role.DECODE, TINY_DECODE if tiny else DECODE, limits, clock=self.clock)
        if greet:
            self.say(self.prefill, self.prefill.hello)
            self.say(self.decode, self.decode.hello)

    def other(self, end: Connection) -> Connection:
        return self.decode if end is self.prefill else self.prefill

    def say(self, end: Connection, frame: Frame, body: bytes = b"") -> list[Received]:
        """Sends and delivers."""
        return deliver(self.other(end), wire_bytes(end, frame, body))

    def settle(self) -> None:
        """Delivers all that is owed."""
        for end in (self.prefill, self.decode, self.prefill):
            for frame in end.owed():
                self.say(end, frame)


def wire_bytes(end: Connection, frame: Frame, body: bytes = b"") -> bytes:
    return b"".join(end.send(seal(frame, [body] if body else ())))


def deliver(end: Connection, data: bytes) -> list[Received]:
    end.feed(data)
    return drain(end)


def drain(end: Connection) -> list[Received]:
    events = []
    while (event := end.next_event()) is not None:
        events.append(event)
    return events


def kv_body(frame: LayerFrame) -> bytes:
    return bytes(index * 31 % 251 for index in range(frame.body_bytes))


def one_of_each() -> list[tuple[Role, Frame, bytes]]:
    """A whole conversation of a tiny pair, in order, with every kind: who says it, the frame, its body."""
    first, second = request_id(1), request_id(2)
    layer = layer_frame(first, layer=3, first_token=5, count=3, record=TINY_PREFILL)
    other = layer_frame(second, count=1, record=TINY_PREFILL)
    return [
        (Role.PREFILL, Hello(role=Role.PREFILL, record=TINY_PREFILL, offer=Offer()), b""),
        (Role.DECODE, Hello(role=Role.DECODE, record=TINY_DECODE, offer=Offer()), b""),
        (Role.PREFILL, layer, kv_body(layer)),
        (Role.PREFILL, other, kv_body(other)),
        (Role.PREFILL, Ping(), b""),
        (Role.DECODE, Credit(total=200 << 20), b""),
        (Role.PREFILL, FirstToken(request=first, token=9, prompt_tokens=8, logprob=-1.5, meta={"text": "é"}), b""),
        (Role.DECODE, Complete(request=first), b""),
        (Role.DECODE, Abort(request=second, code=AbortCode.REFUSED, reason="no such ticket"), b""),
        (Role.PREFILL, Abort(request=second, code=AbortCode.REFUSED, reason="no such ticket"), b""),
        (Role.DECODE, Bye(), b""),
    ]


requests = st.binary(min_size=16, max_size=16).filter(lambda request: request != CONNECTION)
printable = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=30)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), U64),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)
layer_frames = st.builds(
    LayerFrame,
    request=requests,
    layer=st.integers(0, 0xFFFF),
    first_token=st.integers(0, U32 - 65_535),
    count=st.integers(1, 40),
    dtype=st.sampled_from(DType),
    kv_heads=st.integers(1, 5),
    head_dim=st.integers(1, 70),
)
control_frames = st.one_of(
    st.builds(
        FirstToken,
        request=requests,
        token=st.integers(0, U32),
        prompt_tokens=st.integers(1, U32),
        logprob=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        finish_reason=st.none() | printable,
        meta=st.dictionaries(printable, scalars, max_size=6),
    ),
    st.builds(Complete, request=requests),
    st.builds(Abort, request=requests | st.just(CONNECTION), code=st.sampled_from(AbortCode), reason=printable),
    st.builds(Credit, total=st.integers(0, U64)),
    st.just(Ping()),
    st.just(Bye()),
    st.builds(Hello, role=st.sampled_from(Role), record=st.sampled_from([PREFILL, DECODE]), offer=st.just(Offer())),
)
