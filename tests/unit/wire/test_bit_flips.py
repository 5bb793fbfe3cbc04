"""No single flipped bit gets through: each ends in an error, or leaves a control frame that waits for bytes that never
come, which its deadline ends."""

from __future__ import annotations

import random

import pytest
from tests.kv_examples import layer_frame, request_id
from tests.unit.wire.peers import Peers, deliver, kv_body, one_of_each, wire_bytes

from pdwire import (
    HEAD_BYTES,
    ChecksumMismatch,
    Frame,
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
