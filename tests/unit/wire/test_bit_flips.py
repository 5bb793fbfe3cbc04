"""No single flipped bit gets through: each ends in an error, or leaves a control frame that waits for bytes that never
come, which its deadline ends."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest
from tests.kv_examples import layer_frame, request_id
from tests.unit.wire.peers import Clock, Peers, deliver, kv_body, one_of_each, wire_bytes

from pdwire import (
    HEAD_BYTES,
    Abort,
    ChecksumMismatch,
    Connection,
    Credit,
    FirstToken,
    Frame,
    Hello,
    LayerFrame,
    Limits,
    RemoteProtocolError,
    Role,
    seal,
)

CONVERSATION = one_of_each()
SAMPLED_BODY_BITS = 400
"""All of a KV frame's; a HELLO has ten times as many."""


@pytest.mark.parametrize("index", range(len(CONVERSATION)), ids=lambda index: type(CONVERSATION[index][1]).__name__)
def test_every_flipped_bit_of_a_head_and_many_of_a_body_are_noticed(index: int) -> None:
    raw = b"".join(seal(CONVERSATION[index][1], body_of(index)).buffers)
    bits = list(range(8 * HEAD_BYTES))
    body_bits = range(8 * HEAD_BYTES, 8 * len(raw))
    bits += random.Random(index).sample(body_bits, min(len(body_bits), SAMPLED_BODY_BITS))
    for bit in bits:
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        peers = before(index)
        hearer = peers.decode if CONVERSATION[index][0] is Role.PREFILL else peers.prefill
        try:
            events = deliver(hearer, bytes(flipped))
        except RemoteProtocolError:
            continue
        length = int.from_bytes(flipped[8:16], "little")
        assert not events and len(raw) < length <= 65536, f"bit {bit} went unnoticed"
        peers.clock.now += Limits().idle_s + 1
        with pytest.raises(RemoteProtocolError, match=r"idle_s|hello_s"):
            hearer.overdue()


def body_of(index: int) -> list[bytes]:
    return [CONVERSATION[index][2]] if CONVERSATION[index][2] else []


def before(index: int) -> Peers:
    """The two ends just before that frame is said."""
    peers = Peers(greet=False, tiny=True)
    for role, frame, body in CONVERSATION[:index]:
        peers.say(peers.prefill if role is Role.PREFILL else peers.decode, frame, body)
    return peers


def test_a_damaged_kv_frame_is_named_and_costs_only_itself() -> None:
    peers, frame = Peers(), layer_frame(request_id(5), layer=2, first_token=64, count=8)
    raw = bytearray(wire_bytes(peers.prefill, frame, kv_body(frame)))
    raw[-1] ^= 1
    with pytest.raises(ChecksumMismatch, match=f"{request_id(5).hex()} layer 2 tokens 64..71") as error:
        deliver(peers.decode, bytes(raw))
    assert error.value.frame == frame
    assert not peers.decode.requests
    good: Frame = layer_frame(request_id(6))
    assert isinstance(good, LayerFrame)
    assert peers.say(peers.prefill, good, kv_body(good))[0].frame == good


FLIPS = int(os.environ.get("PDCTL_FLIPS", "3000"))
"""Over frames with other contents each; `scripts/soak` asks for 100,000."""


@pytest.mark.timeout(14_400)
def test_no_flipped_bit_of_a_sampled_frame_goes_unnoticed() -> None:
    """Every bit of each head, and some of each body, of frames of every kind with random contents."""
    chance, flips = random.Random(11), 0
    while flips < FLIPS:
        index = chance.randrange(len(CONVERSATION))
        frame, body = varied(chance, CONVERSATION[index][1])
        sealed = seal(frame, [body] if body else ())
        raw = b"".join(sealed.buffers)
        bits = list(range(8 * HEAD_BYTES))
        rest = range(8 * HEAD_BYTES, 8 * len(raw))
        for bit in bits + chance.sample(rest, min(len(rest), 200)):
            hearer, clock = hearer_before(index)
            flipped = bytearray(raw)
            flipped[bit // 8] ^= 1 << bit % 8
            flips += 1
            try:
                events = deliver(hearer, bytes(flipped))
            except RemoteProtocolError:
                continue
            length = int.from_bytes(flipped[8:16], "little")
            assert not events and len(raw) < length <= 65536, f"bit {bit} of {frame} went unnoticed"
            clock.now += Limits().idle_s + 1
            with pytest.raises(RemoteProtocolError, match=r"idle_s|hello_s"):
                hearer.overdue()


def hearer_before(index: int) -> tuple[Connection, Clock]:
    peers = before(index)
    return (peers.decode if CONVERSATION[index][0] is Role.PREFILL else peers.prefill), peers.clock


def varied(chance: random.Random, frame: Frame) -> tuple[Frame, bytes]:
    """The same kind, where it stands in the conversation, with other contents."""
    match frame:
        case LayerFrame():
            other = replace(
                frame, layer=chance.randrange(4), first_token=chance.randrange(1000), count=chance.randrange(1, 9)
            )
            return other, chance.randbytes(other.body_bytes)
        case FirstToken():
            meta = {f"k{number}": chance.random() for number in range(chance.randrange(5))}
            return replace(frame, token=chance.getrandbits(32), logprob=-chance.random(), meta=meta), b""
        case Abort():
            return replace(frame, reason="".join(chance.choices("abc é世", k=30)).strip() + "."), b""
        case Credit():
            return replace(frame, total=chance.randrange(200 << 20, 1 << 60)), b""
        case Hello():
            record = replace(frame.record, name=f"n{chance.getrandbits(64)}")
            return replace(frame, record=record), b""
        case _:
            return frame, b""
