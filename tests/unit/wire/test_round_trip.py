"""A frame that was written reads as the same frame, whatever its kind and however its bytes arrive."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
import xxhash
from hypothesis import given
from tests.kv_examples import PREFILL, layer_frame, request_id
from tests.unit.wire.peers import (
    Peers,
    control_frames,
    kv_body,
    layer_frames,
    one_of_each,
    wire_bytes,
)

from pdwire import (
    HEAD_BYTES,
    Attention,
    ByteOrder,
    CompatRecord,
    Conversion,
    DType,
    Frame,
    Hello,
    LayerFrame,
    Layout,
    LocalProtocolError,
    Offer,
    Role,
    bodies,
    seal,
)
from pdwire.frames import KIND_OF
from pdwire.header import Checksum, read_head


@given(layer_frames)
def test_a_kv_frame_reads_as_it_was_written(frame: LayerFrame) -> None:
    body = kv_body(frame)
    sealed = seal(frame, [body[: len(body) // 3], body[len(body) // 3 :]])
    raw = b"".join(sealed.buffers)
    head = read_head(raw[:HEAD_BYTES])
    assert head.layer == frame
    assert head.length == len(raw) == sealed.length
    assert raw[HEAD_BYTES:] == body


@given(control_frames)
def test_a_control_frame_reads_as_it_was_written(frame: Frame) -> None:
    raw = b"".join(seal(frame).buffers)
    head = read_head(raw[:HEAD_BYTES])
    assert head.kind is KIND_OF[type(frame)]
    assert bodies.decode(head.kind, head.request, raw[HEAD_BYTES:]) == frame


@given(layer_frames)
def test_the_body_is_not_copied_to_be_sent(frame: LayerFrame) -> None:
    body = bytearray(frame.body_bytes)
    sent = seal(frame, [memoryview(body)]).buffers[1]
    body[0] = 0x5A
    assert sent[0] == 0x5A


def test_the_layout_is_that_of_the_document_byte_for_byte() -> None:
    """Written out by hand once, so that writer and reader cannot be wrong together."""
    frame = layer_frame(request_id(7), layer=3, first_token=300, count=2)
    body = kv_body(frame)
    raw = b"".join(seal(frame, [body]).buffers)
    assert raw[:4] == bytes.fromhex("afbeadde")
    assert raw[4:8] == bytes([1, 0, DType.FLOAT32, 2])
    assert raw[8:16] == (64 + 2 * 2 * 2 * 64 * 4).to_bytes(8, "little")
    assert raw[16:24] == struct.pack("<4H", 1, 2, 2, 64)
    assert raw[24:32] == xxhash.xxh3_64_intdigest(raw[:24] + raw[32:]).to_bytes(8, "little")
    assert raw[32:48] == request_id(7)
    assert raw[48:64] == struct.pack("<HHIII", 3, 0, 300, 2, 0)
    assert raw[64:] == body


def test_the_checksum_does_not_depend_on_how_the_body_is_cut() -> None:
    raw = b"".join(seal(layer_frame(request_id(1)), [kv_body(layer_frame(request_id(1)))]).buffers)
    values = set()
    for step in (1, 7, 4096, len(raw)):
        checksum = Checksum(raw[:HEAD_BYTES])
        for at in range(HEAD_BYTES, len(raw), step):
            checksum.update(raw[at : at + step])
        values.add(checksum.value)
    assert len(values) == 1


def test_a_record_with_every_field_in_use_survives_hello() -> None:
    record = CompatRecord(
        name="прелюдия-0",
        model_digest="m",
        tokenizer_digest="t",
        rope={
            "theta": 1e6,
            "rope_type": "longrope",
            "factor": 4,
            "short_factor": (1.0, 1.5),
            "truncate": False,
            "x": None,
        },
        layers=61,
        kv_heads=8,
        head_dim=192,
        dtype=DType.FLOAT8_E4M3FN,
        engine="vllm",
        engine_version="0.33.0",
        attention_backend="FLASH_ATTN",
        capacity_tokens=900_000,
        transports=("shm", "tcp"),
        kv_scales=(0.25, 1.5) * 61,
        layout=Layout.HEAD_MAJOR,
        byte_order=ByteOrder.BIG,
        isa_layout="amx",
        attention=Attention.MLA,
        tp_size=4,
        tp_rank=3,
        block_tokens=64,
    )
    offer, converts = Offer(max_frame_bytes=1 << 20, idle_s=0.5), (Conversion.ROUNDING, Conversion.DTYPE)
    hello = Hello(role=Role.PREFILL, record=record, offer=offer, converts=converts)
    raw = b"".join(seal(hello).buffers)
    assert bodies.decode(read_head(raw[:HEAD_BYTES]).kind, bytes(16), raw[HEAD_BYTES:]) == hello


def conversation() -> dict[Role, tuple[bytes, list[Frame]]]:
    """What each side says, as bytes and as frames."""
    said: dict[Role, tuple[bytes, list[Frame]]] = {role: (b"", []) for role in Role}
    for role, frame, body in one_of_each():
        raw, frames = said[role]
        said[role] = raw + b"".join(seal(frame, [body] if body else ()).buffers), [*frames, frame]
    return said


def hear(pieces: list[bytes]) -> list[Frame]:
    """What a decode hears that answers HELLO when it is its turn."""
    peers, frames = Peers(greet=False, tiny=True), []
    for piece in pieces:
        peers.decode.feed(piece)
        while (event := peers.decode.next_event()) is not None:
            frames.append(event.frame)
            if isinstance(event.frame, Hello):
                wire_bytes(peers.decode, peers.decode.hello)
    return frames


def test_byte_by_byte_gives_the_same_events() -> None:
    raw, frames = conversation()[Role.PREFILL]
    assert hear([raw[at : at + 1] for at in range(len(raw))]) == frames


def test_every_split_in_two_gives_the_same_events() -> None:
    raw, frames = conversation()[Role.PREFILL]
    for at in range(len(raw) + 1):
        assert hear([raw[:at], raw[at:]]) == frames, f"split at {at}"


def test_a_body_given_piece_by_piece_to_its_place_is_the_body_that_was_sent() -> None:
    peers, frame = Peers(), layer_frame(request_id(1))
    body = kv_body(frame)
    raw = wire_bytes(peers.prefill, frame, body)
    incoming = peers.decode.begin(raw[:HEAD_BYTES])
    assert incoming.layer == frame and incoming.head.body_bytes == len(body)
    for at in range(HEAD_BYTES, len(raw), 1000):
        incoming.update(memoryview(raw)[at : at + 1000])
    assert incoming.finish() == frame


@pytest.mark.parametrize("size", [0, 1, 4095, 4097])
def test_a_body_of_another_size_is_not_sent(size: int) -> None:
    frame = layer_frame(request_id(1), count=4)
    assert frame.body_bytes == 4096
    with pytest.raises(LocalProtocolError, match=f"must have 4096 bytes: {size}"):
        seal(frame, [bytes(size)])


def test_a_control_frame_beyond_64_kib_is_not_sent() -> None:
    rope = {f"list{number}": tuple([1.23456789012345] * 1024) for number in range(8)}
    hello = Hello(role=Role.PREFILL, record=replace(PREFILL, rope=rope), offer=Offer())
    with pytest.raises(LocalProtocolError, match="hello must have at most 65536 bytes"):
        seal(hello)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"request": bytes(16)}, "must not be all zero"),
        ({"request": b"short"}, "must be 16 bytes"),
        ({"layer": 65_536}, "layer must be 0 to 65535: 65536"),
        ({"count": 0}, "token count must be 1 to 65535: 0"),
        ({"count": 65_536}, "token count must be 1 to 65535: 65536"),
        ({"first_token": -1}, "first token must be 0 to"),
        ({"kv_heads": True}, "kv heads must be an integer: True"),
        ({"head_dim": 1.0}, "head dim must be an integer: 1.0"),
    ],
)
def test_a_kv_frame_outside_its_fields_cannot_be_made(change: dict[str, object], message: str) -> None:
    with pytest.raises(LocalProtocolError, match=message):
        replace(layer_frame(request_id(1)), **change)  # type: ignore[arg-type]
