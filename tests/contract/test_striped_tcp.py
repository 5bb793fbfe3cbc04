"""Connections of several streams: what goes over which, and what a stream that fails, lies or is a stranger does."""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from tests.contract.kv_sink import Sink, soon
from tests.contract.test_kv_transport import body_of, finish, push
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id

from pdserve.transport.base import KvRefused, TransferFailed
from pdserve.transport.stream import Stream
from pdserve.transport.striped import MAX_STREAMS, STRIPE_BYTES, Lane, Striped, cut
from pdserve.transport.tcp import TcpTransport
from pdserve.transport.tcp_receive import Listener
from pdwire import AbortCode, Connection, Hello, Join, LayerFrame, Limits, Role, seal

LARGE = 8192
"""Tokens: 8 MiB."""
QUICK = Limits(frame_s=0.6, abort_s=0.6)


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def listener(sink: Sink) -> Iterator[Listener]:
    yield from _listening(TcpTransport(QUICK), sink)


@pytest.fixture
def patient(sink: Sink) -> Iterator[Listener]:
    """With the deadlines of a deployment: for what is about bytes and not about time."""
    yield from _listening(TcpTransport(), sink)


def _listening(transport: TcpTransport, sink: Sink) -> Iterator[Listener]:
    listener = transport.listen("127.0.0.1", 0, DECODE, sink)
    assert isinstance(listener, Listener)
    yield listener
    listener.close()


def lanes_of(sender: object) -> list[Lane]:
    stream = sender._endpoint.stream  # type: ignore[attr-defined]
    assert isinstance(stream, Striped)
    return list(stream._lanes)


@pytest.mark.parametrize("streams", [2, 3, 4, 7])
def test_bodies_of_every_size_arrive_exactly_over_any_number_of_streams(
    sink: Sink, patient: Listener, streams: int
) -> None:
    sender = TcpTransport(streams=streams).connect(patient.address, PREFILL, deadline=soon())
    chance = random.Random(streams)
    frames = []
    for number in range(12):
        count = chance.choice([1, 17, 2047, 2048, 2049, 3 * 1024, chance.randrange(2048, 9000)])
        frames.append(layer_frame(request_id(1), number % 4, 16384 * number, count))
        sink.pieces = chance.choice([1, 3, 500])
        push(sender, frames[-1], pieces=chance.choice([1, 2, 300]))
        sink.wait(lambda: len(sink.bodies) == len(frames))  # pieces is of the frame that is on its way
    for frame in frames:
        assert sink.bodies[frame.request, frame.layer, frame.first_token] == body_of(frame)
    sender.close()


def test_a_large_body_really_goes_over_all_streams_and_a_small_one_over_the_first(patient: Listener) -> None:
    sender = TcpTransport(streams=4).connect(patient.address, PREFILL, deadline=soon())

    def sent() -> list[int]:
        return [bytes_sent(lane.stream) for lane in lanes_of(sender)]

    before = sent()
    push(sender, layer_frame(request_id(1), count=1024))
    assert sent() == before
    push(sender, layer_frame(request_id(1), first_token=1024, count=LARGE))
    assert [after - was for after, was in zip(sent(), before, strict=True)] == [2 * STRIPE_BYTES] * 3
    sender.close()


def bytes_sent(stream: Stream) -> int:
    """tcpi_bytes_sent less tcpi_bytes_retrans of tcp(7)'s TCP_INFO, at their offsets in linux/tcp.h: a busy machine makes TCP
    send some bytes twice, even to itself."""
    info = stream._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    return int.from_bytes(info[200:208], "little") - int.from_bytes(info[208:216], "little")


def test_pieces_hold_all_bytes_in_order_whatever_the_views() -> None:
    chance = random.Random(3)
    for _ in range(50):
        sizes = [
            chance.choice([0, 1, 5, 4096, 700_000, STRIPE_BYTES, 3_000_001]) for _ in range(chance.randrange(1, 8))
        ]
        whole = memoryview(bytes(sum(sizes)))
        views, at = [], 0
        for size in sizes:
            views.append(whole[at : at + size])
            at += size
        pieces = cut(views)
        assert b"".join(view for piece in pieces for view in piece) == whole
        assert all(sum(map(len, piece)) == STRIPE_BYTES for piece in pieces[:-1])


def test_more_streams_than_decode_agrees_to_are_not_opened(listener: Listener) -> None:
    sender = TcpTransport(QUICK, streams=MAX_STREAMS + 5).connect(listener.address, PREFILL, deadline=soon())
    assert len(lanes_of(sender)) == MAX_STREAMS - 1
    assert listener.connections == MAX_STREAMS
    sender.close()


def test_closing_ends_every_stream_and_thread_on_both_sides(listener: Listener) -> None:
    before = threading.active_count()
    for _ in range(20):
        sender = TcpTransport(QUICK, streams=4).connect(listener.address, PREFILL, deadline=soon())
        push(sender, layer_frame(request_id(1), count=LARGE))
        sender.close()
    deadline = soon()
    while listener.connections or threading.active_count() > before:
        assert time.monotonic() < deadline, [thread.name for thread in threading.enumerate()]
        time.sleep(0.01)


def test_a_stream_that_is_cut_ends_the_connection_and_aborts_what_it_carried(sink: Sink, listener: Listener) -> None:
    sender = TcpTransport(QUICK, streams=4).connect(listener.address, PREFILL, deadline=soon())
    push(sender, layer_frame(request_id(1)))
    lanes_of(sender)[1].stream.shut()
    with pytest.raises(TransferFailed, match="stream 2"):
        push(sender, layer_frame(request_id(2), count=LARGE))
    assert not sender.alive
    sink.wait(lambda: sink.gone[request_id(1)])
    assert (request_id(2), 0, 0) not in sink.bodies
    sender.close()


def test_a_byte_altered_on_a_further_stream_is_refused_by_name(
    sink: Sink, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = TcpTransport(QUICK, streams=4).connect(listener.address, PREFILL, deadline=soon())
    stream, write = lanes_of(sender)[2].stream, Stream.write

    def flipping(self: Stream, buffers: list[memoryview], deadline: float) -> None:
        if self is stream:
            altered = bytearray(buffers[0])
            altered[12_345] ^= 0x10
            buffers = [memoryview(altered), *buffers[1:]]
        write(self, buffers, deadline)

    monkeypatch.setattr(Stream, "write", flipping)
    push(sender, layer_frame(request_id(1), 2, count=LARGE))
    with pytest.raises(TransferFailed, match="checksum") as failure:
        finish(sender, request_id(1))
    assert failure.value.code is AbortCode.CHECKSUM and "layer 2 tokens 0..8191" in str(failure.value)
    monkeypatch.undo()
    push(sender, layer_frame(request_id(2), 2, count=LARGE))
    finish(sender, request_id(2))
    assert not sink.landings[request_id(1), 2, 0]
    sender.close()


def test_large_frames_of_a_refused_request_are_dropped_on_all_streams(sink: Sink, listener: Listener) -> None:
    def refuse(frame: LayerFrame) -> None:
        if frame.request == request_id(1):
            raise KvRefused("no such ticket")

    sink.placing = refuse
    sender = TcpTransport(QUICK, streams=4).connect(listener.address, PREFILL, deadline=soon())
    with pytest.raises(TransferFailed, match="no such ticket"):
        for number in range(50):
            push(sender, layer_frame(request_id(1), first_token=LARGE * number, count=LARGE - 1000))
    push(sender, layer_frame(request_id(2), count=LARGE))
    finish(sender, request_id(2), LARGE)
    assert sink.bodies[request_id(2), 0, 0] == body_of(layer_frame(request_id(2), count=LARGE))
    sender.close()


def joined(address: str, *joins: Join) -> bytes:
    """What decode answers to a prefill that says HELLO and these."""
    host, port = address.removeprefix("tcp://").split(":")
    prefill = Connection(Role.PREFILL, PREFILL)
    with socket.create_connection((host, int(port)), timeout=10) as peer:
        peer.sendall(b"".join(prefill.send(seal(prefill.hello))))
        while not isinstance(prefill.peer, Hello):
            prefill.feed(peer.recv(4096))
            prefill.next_event()
        for join in joins:
            peer.sendall(b"".join(prefill.send(seal(join))))
        peer.shutdown(socket.SHUT_WR)
        received = b""
        while data := peer.recv(4096):
            received += data
        return received


SESSION = b"s" * 16
STRANGERS: dict[str, Callable[[], list[Join]]] = {
    "no connection here waits for": lambda: [Join(session=SESSION, stream=1, streams=4)],
    "join is said twice": lambda: [Join(session=SESSION, stream=0, streams=4)] * 2,
}


@pytest.mark.parametrize("why", STRANGERS)
def test_a_join_that_fits_nothing_costs_its_connection_and_one_log_line(
    listener: Listener, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    assert why.encode() in joined(listener.address, *STRANGERS[why]())
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    sender = TcpTransport(QUICK, streams=2).connect(listener.address, PREFILL, deadline=soon())
    push(sender, layer_frame(request_id(2), count=LARGE))
    finish(sender, request_id(2), LARGE)
    sender.close()


def test_streams_that_never_come_do_not_keep_a_connection_from_ending(listener: Listener) -> None:
    joined(listener.address, Join(session=SESSION, stream=0, streams=4))
    deadline = soon()
    while listener.connections:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    joined(listener.address, Join(session=SESSION, stream=0, streams=4))  # its name is free again
