"""An inspection verifies every frame of a file, judges its shape, and says what each request lacks."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.kv_examples import layer_frame, request_id
from tests.unit.wire.peers import TINY_DECODE, TINY_PREFILL, kv_body

from pdwire import (
    Abort,
    AbortCode,
    Bye,
    Complete,
    Credit,
    DType,
    FirstToken,
    Frame,
    Hello,
    Kind,
    LayerFrame,
    Offer,
    Role,
    seal,
)
from pdwire.inspect import Examined, Inspection

ONE, TWO = request_id(1), request_id(2)
HELLO = Hello(role=Role.PREFILL, record=TINY_PREFILL, offer=Offer())


def layers(request: bytes, first: int = 0, count: int = 8) -> list[Frame]:
    return [layer_frame(request, layer, first, count, TINY_PREFILL) for layer in range(TINY_PREFILL.layers)]


def done(request: bytes, tokens: int) -> FirstToken:
    return FirstToken(request=request, token=9, prompt_tokens=tokens)


def written(frames: list[Frame]) -> bytes:
    return b"".join(
        bytes(buffer)
        for frame in frames
        for buffer in seal(frame, [kv_body(frame)] if isinstance(frame, LayerFrame) else ()).buffers
    )


def examine(data: bytes) -> tuple[Inspection, list[Examined]]:
    inspection = Inspection(io.BytesIO(data).read)
    return inspection, list(inspection.frames())


WHOLE: list[Frame] = [HELLO, *layers(ONE), *layers(TWO), *layers(ONE, 8, 3), done(ONE, 11), done(TWO, 8), Bye()]


def test_a_whole_file_has_no_fault_and_every_frame_its_place() -> None:
    data = written(WHOLE)
    inspection, frames = examine(data)
    assert [one.frame for one in frames] == WHOLE and not inspection.faults
    assert not any(one.faults for one in frames)
    assert [one.offset for one in frames] == [sum(each.length for each in frames[:at]) for at in range(len(frames))]
    assert frames[-1].offset + frames[-1].length == len(data)
    told = inspection.requests[ONE]
    assert (told.frames, told.again, told.faults) == (8, 0, []) and told.ended == "token 9 after 11 prompt tokens"
    assert inspection.record == TINY_PREFILL


def faults_of(frames: list[Frame], spoil: Callable[[bytearray], None] = lambda data: None) -> str:
    data = bytearray(written(frames))
    spoil(data)
    inspection, examined = examine(bytes(data))
    return "\n".join([*(fault for one in examined for fault in one.faults), *inspection.faults])


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([], "there is not one frame"),
        ([HELLO, *layers(ONE), done(ONE, 8)], "it ends with FIRST_TOKEN and not with BYE"),
        ([*layers(ONE), HELLO, Bye()], "it comes before any HELLO"),
        ([Hello(role=Role.DECODE, record=TINY_DECODE, offer=Offer()), Bye()], "decode's HELLO"),
        ([HELLO, replace(HELLO, record=replace(TINY_PREFILL, name="p1")), Bye()], "another HELLO than the one before"),
        (
            [HELLO, *layers(ONE), done(ONE, 9), Bye()],
            "layer 0 tokens: expected 9, got 8: the last prompt token is missing",
        ),
        ([HELLO, *layers(ONE)[:3], done(ONE, 8), Bye()], "layer 3 tokens: expected 8, got 0"),
        ([HELLO, *layers(ONE, 4), done(ONE, 12), Bye()], "layer 0 tokens: expected 12, got 0"),
        ([HELLO, *layers(ONE, 0, 9), done(ONE, 8), Bye()], "one token too many"),
        (
            [HELLO, layer_frame(ONE, record=replace(TINY_PREFILL, dtype=DType.FLOAT16)), Bye()],
            "layer 0 dtype: expected float32, got float16",
        ),
        ([HELLO, layer_frame(ONE, record=replace(TINY_PREFILL, kv_heads=2)), Bye()], "kv_heads: expected 1, got 2"),
        (
            [HELLO, layer_frame(ONE, record=replace(TINY_PREFILL, kv_heads=2, head_dim=1)), Bye()],
            "kv_heads and head_dim are exchanged",
        ),
        ([HELLO, layer_frame(ONE, 4, record=TINY_PREFILL), Bye()], "the model has no such layer"),
        ([HELLO, *layers(ONE), Bye()], f"request {ONE.hex()} has no end"),
        ([HELLO, *layers(ONE), done(ONE, 8), Bye(), Bye()], "prefill may not say bye while the connection is closed"),
        ([HELLO, *layers(ONE), done(ONE, 8), Bye(), *layers(TWO)], "may not say layer while the connection is closed"),
        ([HELLO, HELLO, Bye()], "prefill may not say hello while the connection is open"),
        ([HELLO, *layers(ONE), done(ONE, 8), done(ONE, 8), Bye()], "its request has ended before it: token 9"),
        (
            [HELLO, Abort.because(AbortCode.CANCELLED, "x", ONE), *layers(ONE), Bye()],
            "has ended before it: given up: x",
        ),
        ([HELLO, Credit(total=1 << 20), Bye()], "prefill may not say credit"),
        ([HELLO, Complete(request=ONE), Bye()], "prefill may not say complete"),
        ([HELLO, Abort.because(AbortCode.INTERNAL, "x"), Bye()], "prefill gave the whole connection up"),
    ],
)
def test_what_is_wrong_is_named(frames: list[Frame], words: str) -> None:
    assert words in faults_of(frames)


def test_what_is_said_does_not_grow_with_what_a_hello_claims() -> None:
    wide = replace(TINY_PREFILL, layers=65536)
    frames: list[Frame] = [replace(HELLO, record=wide), *layers(ONE)]
    frames += [done(request_id(number), 8) for number in range(1, 300)]
    began = time.process_time()
    words = faults_of([*frames, Bye()])
    assert time.process_time() - began < 5, "each first token is compared with 65536 layers"
    assert "layer 4 tokens: expected 8, got 0" in words and "and so are 65512 other layers" in words
    assert len(words) < 300 * 21 * 200
    inspection, _ = examine(written([HELLO, *(layers(request_id(number))[0] for number in range(1, 100)), Bye()]))
    assert len(inspection.faults) == 21 and inspection.faults[-1] == "and so have 79 other requests"


def test_a_flipped_bit_costs_its_frame_and_the_next_one_is_read() -> None:
    body = len(written(WHOLE[:1])) + 64 + 5

    def flip(data: bytearray) -> None:
        data[body] ^= 4

    data = bytearray(written(WHOLE))
    flip(data)
    inspection, frames = examine(bytes(data))
    assert [number for number, one in enumerate(frames) if one.faults] == [1, WHOLE.index(done(ONE, 11))]
    assert "checksum is 0x" in frames[1].faults[0]
    assert len(inspection.requests[ONE].faults) == 2
    assert "layer 0 tokens: expected 11, got 0" in inspection.requests[ONE].faults[1]


def test_what_is_not_made_of_frames_ends_the_inspection_and_says_where() -> None:
    inspection, frames = examine(written(WHOLE) + b"garbage" * 20)
    assert len(frames) == len(WHOLE) + 1 and frames[-1].kind is None
    assert "illegal magic" in frames[-1].faults[0]
    assert inspection.faults == [f"byte {len(written(WHOLE))}: what follows is not made of frames"]


@pytest.mark.parametrize("cut", [1, 63, 64, 65, 100])
def test_a_file_that_is_cut_says_what_is_missing(cut: int) -> None:
    data = written([HELLO, *layers(ONE)])
    last = len(data) - len(written(layers(ONE)[-1:]))
    inspection, frames = examine(data[: last + cut])
    assert frames[-1].faults and inspection.faults
    assert ("missing" if cut >= 64 else "where a head has 64") in frames[-1].faults[0]


def test_a_frame_that_comes_again_and_a_request_that_was_given_up_are_told_and_are_no_fault() -> None:
    abort = Abort(request=TWO, code=AbortCode.CANCELLED, reason="the client left")
    twice = [HELLO, *layers(ONE), *layers(ONE)[:2], done(ONE, 8), *layers(TWO)[:1], abort, Bye()]
    inspection, frames = examine(written(twice))
    assert not any(one.faults for one in frames) and not inspection.faults
    assert inspection.requests[ONE].again == 2
    assert inspection.requests[TWO].ended == "given up: the client left"


def test_every_kind_can_be_read() -> None:
    """Also those that a capture never holds: the file may come from anywhere."""
    from tests.unit.wire.peers import one_of_each

    data = b"".join(
        bytes(buffer) for _, frame, body in one_of_each() for buffer in seal(frame, [body] if body else ()).buffers
    )
    _, frames = examine(data)
    assert {one.kind for one in frames} >= {Kind.HELLO, Kind.CREDIT, Kind.PING, Kind.COMPLETE, Kind.BYE}
