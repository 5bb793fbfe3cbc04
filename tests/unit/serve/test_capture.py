"""A capture holds whole transfers, byte for byte; it can be inspected, and replayed through the file transport."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.engine.pair import Pair
from tests.engine.tiny import make_model

from pdserve.capture import UNREAD_BYTES, CapturingSink, Recording
from pdserve.config import ModelConfig
from pdserve.errors import EngineBusy
from pdserve.kv_cache import KvCache
from pdserve.kv_receiver import KvReceiver, Reservation
from pdserve.model import LoadedModel, load_model
from pdserve.transport.base import Transport
from pdserve.transport.file import FileTransport
from pdserve.transport.security import TransportSecurity
from pdserve.transport.tcp import TcpTransport
from pdwire import Conversion, DType, FirstToken, Hello, Kind, LayerFrame, Limits, Offer, Role, Secret, Security
from pdwire.inspect import Examined, Inspection

PROMPTS = [[2 + (7 * number + at) % 250 for at in range(length)] for number, length in enumerate((1, 9, 40, 90))]
ENCRYPTED = TransportSecurity(Security.ENCRYPTED, lambda: [Secret(bytes(32))])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    directory: Path = make_model(tmp_path_factory.mktemp("tiny"))
    return load_model(ModelConfig(path=directory, name="tiny", threads=1))


class Watched:
    """A pair whose decode side has a capturing sink."""

    def __init__(self, model: LoadedModel, transport: str | Transport) -> None:
        self.pair = Pair(
            model,
            chunk_tokens=24,
            block_tokens=8,
            memory_bytes=4 << 20,
            transport=transport,
            sink=lambda receiver, cache: self._sink(receiver),
        )

    def _sink(self, receiver: KvReceiver) -> CapturingSink:
        self.sink = CapturingSink(receiver)
        return self.sink

    def record(self, transfers: int = 0, seconds: float = 30.0, max_bytes: int = 64 << 20) -> Recording:
        return self.sink.record(max_bytes=max_bytes, max_transfers=transfers, seconds=seconds)


@pytest.fixture(params=["tcp", "encrypted tcp", "shm"])
def watched(request: pytest.FixtureRequest, model: LoadedModel) -> Iterator[Watched]:
    transport = TcpTransport(security=ENCRYPTED) if request.param == "encrypted tcp" else request.param
    watched = Watched(model, transport)
    with watched.pair:
        yield watched


@pytest.fixture
def plain(model: LoadedModel) -> Iterator[Watched]:
    watched = Watched(model, "tcp")
    with watched.pair:
        yield watched


def inspected(data: bytes) -> tuple[Inspection, list[Examined]]:
    inspection = Inspection(io.BytesIO(data).read)
    return inspection, list(inspection.frames())


def test_a_capture_holds_every_transfer_whole_and_ends_when_it_has_enough(watched: Watched) -> None:
    watched.pair.generate(PROMPTS[0], 2)
    recording = watched.record(transfers=len(PROMPTS))
    for prompt in PROMPTS:
        watched.pair.generate(prompt, 2)
    inspection, frames = inspected(b"".join(recording))
    assert not inspection.faults and not any(one.faults for one in frames)
    assert [told.first_token.prompt_tokens for told in inspection.requests.values() if told.first_token] == [
        len(prompt) for prompt in PROMPTS
    ]
    assert inspection.record is not None and inspection.record.name == "p0"
    assert frames[-1].kind is Kind.BYE


def test_a_capture_is_replayed_through_the_file_transport_into_another_cache(
    plain: Watched, model: LoadedModel, tmp_path: Path
) -> None:
    plain.pair.generate(PROMPTS[0], 2)
    recording = plain.record(transfers=2)
    for prompt in PROMPTS[2:]:
        plain.pair.generate(prompt, 2)
    captured = b"".join(recording)
    inspection, _frames = inspected(captured)
    cache = KvCache(model.architecture, model.dtype, "cpu", block_tokens=16, memory_bytes=1 << 20)
    receiver = KvReceiver(cache)
    settled: list[Reservation] = []
    for told in inspection.requests.values():
        assert told.first_token is not None
        tokens = told.first_token.prompt_tokens
        assert receiver.reserve(told.request, tokens, tokens + 1, settled.append)
    record = model.compat_record(name="d9", block_tokens=16, capacity_tokens=4096, transports=("file", "tcp"))
    listener = FileTransport(tmp_path / "spool", Limits()).listen("", 0, record, receiver)
    try:
        (tmp_path / "draft").write_bytes(captured)
        (tmp_path / "draft").rename(tmp_path / "spool" / "captured.kv")
        end = time.monotonic() + 20
        while len(settled) < 2:
            assert time.monotonic() < end, list((tmp_path / "spool").iterdir())
            time.sleep(0.02)
    finally:
        listener.close()
    assert [one.failure for one in settled] == [None, None]
    assert sum(one.figures.bytes for one in settled) == sum(told.body_bytes for told in inspection.requests.values())


def test_a_transfer_that_had_begun_before_is_left_out(plain: Watched) -> None:
    plain.pair.generate(PROMPTS[0], 1)
    entered, leave = threading.Event(), threading.Event()
    place = plain.sink.place

    def slow(frame: LayerFrame) -> list[memoryview]:
        views = list(place(frame))
        if frame.layer == 1 and not leave.is_set():
            entered.set()
            assert leave.wait(20)
        return views

    plain.sink.place = slow  # type: ignore[method-assign]
    early = plain.pair.start(PROMPTS[2], 1)
    assert entered.wait(20)
    recording = plain.record(transfers=1)
    leave.set()
    early.tokens()
    plain.pair.generate(PROMPTS[3], 1)
    inspection, _ = inspected(b"".join(recording))
    (told,) = inspection.requests.values()
    assert told.request != early.id and told.first_token is not None and not inspection.faults


def test_two_captures_at_a_time_are_refused_and_the_first_goes_on(plain: Watched) -> None:
    with pytest.raises(EngineBusy, match="no prefill process has connected yet"):
        plain.record()
    plain.pair.generate(PROMPTS[0], 1)
    first = plain.record()
    with pytest.raises(EngineBusy, match="one at a time"):
        plain.record()
    first.close("enough")
    plain.record().close("enough")


def test_a_capture_ends_in_time_in_size_and_when_its_reader_sleeps_and_never_holds_up_a_transfer(
    plain: Watched,
) -> None:
    plain.pair.generate(PROMPTS[0], 1)
    begun = time.monotonic()
    inspection, frames = inspected(b"".join(plain.record(seconds=0.3)))
    assert 0.2 < time.monotonic() - begun < 5 and [one.kind for one in frames] == [Kind.HELLO, Kind.BYE]
    small = plain.record(max_bytes=30_000)
    for _ in range(4):
        plain.pair.generate(PROMPTS[3], 1)
    data = b"".join(small)
    assert len(data) < 30_000 + 2000
    inspection, frames = inspected(data)
    assert not inspection.faults and "as large as it may be" in str(
        [told.ended for told in inspection.requests.values()]
    )


def test_a_reader_that_sleeps_ends_the_capture_before_memory_fills(model: LoadedModel) -> None:
    record = model.compat_record(name="p0", block_tokens=1, capacity_tokens=4096, transports=("tcp",))
    hello = Hello(role=Role.PREFILL, record=record, offer=Offer())
    recording = Recording(hello, max_bytes=1 << 40, max_transfers=0, deadline=time.monotonic() + 30)
    frame = LayerFrame(
        request=bytes(15) + b"1", layer=0, first_token=0, count=65_535, dtype=model.dtype, kv_heads=2, head_dim=16
    )
    body = memoryview(bytearray(frame.body_bytes))
    for _ in range(1 + UNREAD_BYTES // frame.body_bytes):
        recording.layer(frame, [body])
    assert recording.over
    recording.last(FirstToken(request=frame.request, token=1, prompt_tokens=65_535))
    inspection, frames = inspected(b"".join(recording))
    assert "its reader is too slow" in str(inspection.requests[frame.request].ended)
    assert sum(one.length for one in frames) <= UNREAD_BYTES + 8192


def test_a_prefill_of_another_dtype_beside_the_captured_one_does_not_spoil_the_capture(model: LoadedModel) -> None:
    can = frozenset({Conversion.DTYPE})
    cache = KvCache(model.architecture, DType.FLOAT32, "cpu", block_tokens=8, memory_bytes=1 << 20)
    sink = CapturingSink(receiver := KvReceiver(cache, can=can))
    record = model.compat_record(name="p0", block_tokens=1, capacity_tokens=4096, transports=("tcp",))
    for dtype in (DType.FLOAT32, DType.BFLOAT16):
        sink.greeted(Hello(role=Role.PREFILL, record=replace(record, dtype=dtype), offer=Offer(), converts=tuple(can)))
    recording = sink.record(max_bytes=1 << 20, max_transfers=0, seconds=30)
    for number, dtype in enumerate((DType.FLOAT32, DType.BFLOAT16), 1):
        request = bytes([number]) * 16
        assert receiver.reserve(request, 4, 4, lambda _: None) is not None
        for layer in range(record.layers):
            frame = LayerFrame(
                request=request,
                layer=layer,
                first_token=0,
                count=4,
                dtype=dtype,
                kv_heads=record.kv_heads,
                head_dim=record.head_dim,
            )
            sink.place(frame)
            sink.landed(frame)
        sink.first_token(FirstToken(request=request, token=1, prompt_tokens=4))
    recording.close("enough")
    inspection, frames = inspected(b"".join(recording))
    assert not inspection.faults and not any(one.faults for one in frames)
    assert list(inspection.requests) == [b"\2" * 16]
    assert inspection.record is not None and inspection.record.dtype is DType.BFLOAT16
