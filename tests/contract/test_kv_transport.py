"""What every KV transport guarantees (docs/transports.md lists it), over each of them."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psutil
import pytest
from tests.contract.bad_link import BadLink
from tests.contract.kv_sink import Sink, require_all_tokens, soon
from tests.contract.transports import FILE, TRANSPORTS, Case, dial, mute_server
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id

from pdserve.transport.base import KvListener, KvRefused, KvSender, TransferFailed, Transport
from pdserve.transport.segment import Segment
from pdwire import (
    CONNECTION,
    HEAD_BYTES,
    Abort,
    AbortCode,
    Connection,
    Conversion,
    DType,
    FirstToken,
    IncompatiblePeer,
    LayerFrame,
    Limits,
    Ping,
    Role,
    seal,
)

ARENA_BYTES = 40 << 20
QUICK = Limits(hello_s=0.5, frame_s=0.5, idle_s=0.6, request_s=0.5, complete_s=0.5, abort_s=0.5)


@pytest.fixture(params=TRANSPORTS, ids=lambda case: case.name)
def make(request: pytest.FixtureRequest) -> Case:
    case: Case = request.param
    return case


@pytest.fixture(params=[*TRANSPORTS, FILE], ids=lambda case: case.name)
def any_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Over files too, where nobody answers: what arrives arrives after `finish`."""
    pair = Pair(request.param)
    yield pair
    pair.close()


@pytest.fixture(params=[case for case in TRANSPORTS if case.link], ids=lambda case: case.name)
def linked(request: pytest.FixtureRequest) -> Case:
    """Those whose bytes a bad link can alter, cut and stall."""
    case: Case = request.param
    return case


class Pair:
    """A sink that listens and a sender that is connected to it."""

    def __init__(self, make: Case, limits: Limits | None = None, sink: Sink | None = None) -> None:
        self.transport = make(limits or Limits())
        self.lends = make.lends
        self.sink = sink or Sink(segment=Segment.create(ARENA_BYTES) if make.lends else None)
        self.listener: KvListener = self.transport.listen("127.0.0.1", 0, DECODE, self.sink)
        self.senders: list[KvSender] = []

    def connect(self, address: str | None = None) -> KvSender:
        sender = self.transport.connect(address or self.listener.address, PREFILL, deadline=soon())
        self.senders.append(sender)
        return sender

    def close(self) -> None:
        for sender in self.senders:
            sender.close()
        self.listener.close()
        if self.sink.segment is not None:
            self.sink.views.clear()
            self.sink.segment.close()


@pytest.fixture
def pair(make: Case) -> Iterator[Pair]:
    pair = Pair(make)
    yield pair
    pair.close()


@pytest.fixture
def quick(make: Case) -> Iterator[Pair]:
    pair = Pair(make, QUICK)
    yield pair
    pair.close()


@pytest.fixture
def quick_linked(linked: Case) -> Iterator[Pair]:
    pair = Pair(linked, QUICK)
    yield pair
    pair.close()


def body_of(frame: LayerFrame, seed: int = 0) -> bytes:
    return random.Random(repr((frame.request, frame.layer, frame.first_token, seed))).randbytes(frame.body_bytes)


def push(sender: KvSender, frame: LayerFrame, *, pieces: int = 1) -> None:
    view = memoryview(body_of(frame))
    step = -(-len(view) // pieces)
    sender.push(frame, [view[at : at + step] for at in range(0, len(view), step)], deadline=soon())


def push_all(sender: KvSender, request: bytes, tokens: int = 40, chunk: int = 16) -> None:
    for first in range(0, tokens, chunk):
        for layer in range(PREFILL.layers):
            push(sender, layer_frame(request, layer, first, min(chunk, tokens - first)))


def finish(sender: KvSender, request: bytes, tokens: int = 40) -> None:
    sender.finish(FirstToken(request=request, token=7, prompt_tokens=tokens), deadline=soon())


# What arrives.


def test_bytes_arrive_exactly_and_the_first_token_follows_them(any_pair: Pair) -> None:
    sender, request = any_pair.connect(), request_id(1)
    assert sender.alive
    any_pair.sink.finishing = require_all_tokens(any_pair.sink)
    push_all(sender, request)
    done = FirstToken(
        request=request, token=42, prompt_tokens=40, logprob=-0.25, finish_reason="stop", meta={"ms": 1.5}
    )
    sender.finish(done, deadline=soon())
    any_pair.sink.wait(lambda: any_pair.sink.done)
    assert any_pair.sink.done[request] == done
    assert len(any_pair.sink.bodies) == 3 * PREFILL.layers
    for (_, layer, first), body in any_pair.sink.bodies.items():
        assert body == body_of(layer_frame(request, layer, first, len(body) // 1024))
    assert not any_pair.sink.gone


@pytest.mark.parametrize(("pieces_out", "pieces_in"), [(1, 1), (1, 700), (1500, 7), (13, 1100)])
def test_a_large_frame_is_gathered_and_scattered(any_pair: Pair, pieces_out: int, pieces_in: int) -> None:
    any_pair.sink.pieces, any_pair.sink.tokens = pieces_in, 8192
    frame = layer_frame(request_id(1), count=8192)
    assert frame.body_bytes == 8 << 20
    sender = any_pair.connect()
    push(sender, frame, pieces=pieces_out)
    finish(sender, frame.request, 8192)
    any_pair.sink.wait(lambda: any_pair.sink.bodies)
    assert any_pair.sink.bodies[frame.request, 0, 0] == body_of(frame)


def test_more_bytes_than_the_credit_window_go_through(make: Case) -> None:
    pair = Pair(make, Limits(max_frame_bytes=70_000, credit_bytes=140_000))
    try:
        pair.sink.tokens = 6400
        sender = pair.connect()
        for number in range(100):
            push(sender, layer_frame(request_id(1), first_token=64 * number, count=64))
        pair.sink.wait(lambda: len(pair.sink.bodies) == 100)
    finally:
        pair.close()


def test_many_requests_share_one_connection_from_many_threads(any_pair: Pair) -> None:
    sender = any_pair.connect()
    any_pair.sink.finishing = require_all_tokens(any_pair.sink)

    def one(number: int) -> None:
        push_all(sender, request_id(number))
        finish(sender, request_id(number))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(1, 65), timeout=60))
    any_pair.sink.wait(lambda: len(any_pair.sink.done) == 64)
    assert set(any_pair.sink.done) == {request_id(number) for number in range(1, 65)}
    assert len(any_pair.sink.bodies) == 64 * 3 * PREFILL.layers
    for (request, layer, first), body in any_pair.sink.bodies.items():
        assert body == body_of(layer_frame(request, layer, first, len(body) // 1024))
    assert not any_pair.sink.gone


def test_a_resent_frame_lands_again(any_pair: Pair) -> None:
    sender, frame = any_pair.connect(), layer_frame(request_id(1))
    push(sender, frame)
    push(sender, frame)
    finish(sender, frame.request, 16)
    any_pair.sink.wait(lambda: any_pair.sink.landings[frame.request, 0, 0] == 2)
    assert any_pair.sink.bodies[frame.request, 0, 0] == body_of(frame)


def test_two_prefills_feed_one_decode(any_pair: Pair) -> None:
    for number in (1, 2):
        sender = any_pair.connect()
        push_all(sender, request_id(number))
        finish(sender, request_id(number))
    any_pair.sink.wait(lambda: len(any_pair.sink.done) == 2)


def test_each_side_knows_the_other(any_pair: Pair) -> None:
    assert any_pair.connect().peer == DECODE


# What is refused.


def test_a_flipped_byte_is_refused_by_name_and_ends_the_request_on_both_sides(linked: Case) -> None:
    pair = Pair(linked)
    hello = sum(len(buffer) for buffer in seal(Connection(Role.PREFILL, PREFILL).hello).buffers)
    try:
        with BadLink(pair.listener.address, flip=hello + HEAD_BYTES + 12_345) as link:
            sender, bad, good = pair.connect(link.address), layer_frame(request_id(1), 2, 32), request_id(2)
            push(sender, bad)
            pair.sink.wait(lambda: pair.sink.gone)
            with pytest.raises(TransferFailed) as failure:
                finish(sender, bad.request)
            assert failure.value.code is AbortCode.CHECKSUM
            for text in (str(failure.value), *pair.sink.gone[bad.request]):
                assert "checksum" in text and bad.request.hex() in text and "layer 2 tokens 32..47" in text
            assert not pair.sink.bodies, "a frame that did not verify must never land"
            push_all(sender, good)
            finish(sender, good)
            assert len(pair.sink.gone[bad.request]) == 1 and good in pair.sink.done
    finally:
        pair.close()


def test_a_frame_that_the_sink_refuses_fails_its_request_only(pair: Pair) -> None:
    def refuse(frame: LayerFrame) -> None:
        if frame.request == request_id(1):
            raise KvRefused("no such ticket")

    pair.sink.placing, pair.sink.tokens = refuse, 4096
    sender = pair.connect()
    with pytest.raises(TransferFailed, match="no such ticket") as failure:
        push_all(sender, request_id(1), tokens=4000)
        finish(sender, request_id(1), tokens=4000)
    assert failure.value.code is AbortCode.REFUSED
    with pytest.raises(TransferFailed, match="no such ticket"):
        push(sender, layer_frame(request_id(1)))
    push_all(sender, request_id(2))
    finish(sender, request_id(2))
    if not pair.lends:
        assert not pair.sink.gone, "a request that was never placed needs no abort"


def test_a_request_refused_midway_is_aborted_at_the_sink_once(pair: Pair) -> None:
    def refuse(frame: LayerFrame) -> None:
        if frame.layer == 2:
            raise KvRefused("lease expired")

    pair.sink.placing = refuse
    sender = pair.connect()
    with pytest.raises(TransferFailed, match="lease expired"):
        push_all(sender, request_id(1))
        finish(sender, request_id(1))
    pair.sink.wait(lambda: pair.sink.gone[request_id(1)])
    push(sender, layer_frame(request_id(2)))
    pair.sink.wait(lambda: pair.sink.bodies.get((request_id(2), 0, 0)))
    assert pair.sink.gone[request_id(1)] == ["lease expired"]


def test_a_first_token_without_all_its_kv_is_refused(pair: Pair) -> None:
    pair.sink.finishing = require_all_tokens(pair.sink)
    sender = pair.connect()
    push_all(sender, request_id(1), tokens=32)
    with pytest.raises(TransferFailed, match=r"layer 0 lacks tokens 32\.\.39"):
        finish(sender, request_id(1), tokens=40)
    pair.sink.wait(lambda: len(pair.sink.gone[request_id(1)]) == 1)


def test_a_sink_that_fails_costs_its_request_and_no_more(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    def fail(frame: LayerFrame) -> None:
        if frame.request == request_id(1):
            raise ZeroDivisionError

    pair.sink.landing = fail
    sender = pair.connect()
    with pytest.raises(TransferFailed, match="internal error of the receiver"):
        push_all(sender, request_id(1))
        finish(sender, request_id(1))
    assert "ZeroDivisionError" in caplog.text
    push_all(sender, request_id(2))
    finish(sender, request_id(2))


@pytest.mark.parametrize("change", [{"layer": 4}, {"dtype": DType.BFLOAT16}, {"kv_heads": 4}, {"head_dim": 32}])
def test_a_frame_outside_the_negotiated_shape_is_not_sent(any_pair: Pair, change: dict[str, int]) -> None:
    sender = any_pair.connect()
    frame = replace(layer_frame(request_id(1)), **change)
    with pytest.raises(TransferFailed, match="negotiated"):
        push(sender, frame)
    push(sender, layer_frame(request_id(2)))


def test_an_incompatible_peer_is_named_with_both_values(make: Case, caplog: pytest.LogCaptureFixture) -> None:
    transport = make(Limits())
    decode = replace(DECODE, dtype=DType.BFLOAT16, model_digest="sha256:0bad")
    listener = transport.listen("127.0.0.1", 0, decode, Sink())
    try:
        with pytest.raises(IncompatiblePeer) as failure:
            transport.connect(listener.address, PREFILL, deadline=soon())
    finally:
        listener.close()
    assert {field.field for field in failure.value.verdict.fatal} == {"dtype", "model_digest"}
    for text in (str(failure.value), caplog.text):
        assert "dtype: prefill float32, decode bfloat16" in text
        assert "model_digest: prefill sha256:6e1f, decode sha256:0bad" in text


def leaving(case: Case, *can: Conversion) -> Transport:
    """The case's transport, of an engine that agrees to these."""
    transport = case(Limits())
    for one in (transport, getattr(transport, "_tcp", None)):
        if one is not None:
            one._can = frozenset(can)
    return transport


@pytest.mark.parametrize("of_prefill", [True, False])
def test_a_leave_that_one_side_alone_gives_is_refused_by_name_before_a_frame_is_sent(
    make: Case, of_prefill: bool
) -> None:
    both = leaving(make, Conversion.ROUNDING), leaving(make)
    prefill, decode = both if of_prefill else both[::-1]
    listener = decode.listen("127.0.0.1", 0, replace(DECODE, dtype=DType.BFLOAT16), Sink())
    try:
        with pytest.raises(IncompatiblePeer, match="dtype: prefill float32, decode bfloat16"):
            prefill.connect(listener.address, PREFILL, deadline=soon())
    finally:
        listener.close()


@pytest.mark.parametrize("case", [case for case in TRANSPORTS if case.open], ids=lambda case: case.name)
def test_a_decode_that_finds_the_two_incompatible_is_heard_in_its_own_words(case: Case) -> None:
    """As one of another version might, whose verdict knows more."""
    server, address = mute_server(case.scheme)

    def answer() -> None:
        peer, _ = server.accept()
        with peer:
            peer.settimeout(10)
            decode = Connection(Role.DECODE, DECODE)
            while decode.next_event() is None:
                decode.feed(peer.recv(4096))
            refusal = Abort(request=CONNECTION, code=AbortCode.INCOMPATIBLE, reason="fatal: of a later version")
            for frame in (decode.hello, refusal):
                peer.sendall(b"".join(decode.send(seal(frame))))
            while peer.recv(4096):
                pass

    with server:
        server.settimeout(10)
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(TransferFailed, match="fatal: of a later version") as failure:
            sender = case(Limits()).connect(address, PREFILL, deadline=soon())
            try:
                push_all(sender, request_id(1))
                finish(sender, request_id(1))
            finally:
                sender.close()
        assert failure.value.code is AbortCode.INCOMPATIBLE
        thread.join(10)


# How it ends early.


def test_an_abort_of_the_sender_reaches_the_sink_once(pair: Pair) -> None:
    sender = pair.connect()
    push(sender, layer_frame(request_id(1)))
    sender.abort(request_id(1), "client went away")
    sender.abort(request_id(1), "client went away")
    pair.sink.wait(lambda: pair.sink.gone[request_id(1)])
    with pytest.raises(TransferFailed, match="client went away"):
        push(sender, layer_frame(request_id(1)))
    push_all(sender, request_id(2))
    finish(sender, request_id(2))
    assert pair.sink.gone[request_id(1)] == ["client went away"]


def test_an_abort_before_the_first_frame_frees_what_the_sink_reserved(pair: Pair) -> None:
    pair.connect().abort(request_id(1), "prefill failed")
    pair.sink.wait(lambda: pair.sink.gone[request_id(1)] == ["prefill failed"])


def test_an_abort_after_the_end_is_no_abort(pair: Pair) -> None:
    sender = pair.connect()
    push_all(sender, request_id(1))
    finish(sender, request_id(1))
    sender.abort(request_id(1), "too late")
    push_all(sender, request_id(2))
    finish(sender, request_id(2))
    assert not pair.sink.gone


def test_an_abort_of_the_receiver_stops_the_sender(pair: Pair) -> None:
    sender = pair.connect()
    push(sender, layer_frame(request_id(1)))
    pair.sink.wait(lambda: pair.sink.bodies)
    assert pair.listener.abort(request_id(1), "lease ran out") is pair.lends
    assert pair.listener.abort(request_id(9), "unknown") is False
    with pytest.raises(TransferFailed, match="lease ran out") as failure:
        finish(sender, request_id(1))
    assert failure.value.code is AbortCode.CANCELLED
    if pair.lends:
        pair.sink.wait(lambda: pair.sink.gone[request_id(1)] == ["lease ran out"])
    else:
        assert not pair.sink.gone, "abort answered that nothing is being written"


def test_memory_of_a_frame_being_written_is_given_back_only_by_aborted(pair: Pair) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold(frame: LayerFrame) -> None:
        entered.set()
        assert leave.wait(10)

    pair.sink.placing = hold
    sender = pair.connect()
    push(sender, layer_frame(request_id(1)))
    assert entered.wait(10)
    assert pair.listener.abort(request_id(1), "client went away") is True
    assert not pair.sink.gone
    leave.set()
    pair.sink.wait(lambda: pair.sink.gone[request_id(1)])
    assert not pair.sink.bodies
    with pytest.raises(TransferFailed, match="client went away"):
        finish(sender, request_id(1))
    assert len(pair.sink.gone[request_id(1)]) == 1


def test_a_connection_cut_in_mid_frame_aborts_every_unfinished_request(linked: Case) -> None:
    pair = Pair(linked)
    try:
        with BadLink(pair.listener.address, cut=500_000) as link:
            sender = pair.connect(link.address)
            push(sender, layer_frame(request_id(1)))
            push_all(sender, request_id(2))
            finish(sender, request_id(2))
            with pytest.raises(TransferFailed):
                push(sender, layer_frame(request_id(3), count=8192))
                finish(sender, request_id(3))
            pair.sink.wait(lambda: len(pair.sink.gone) == 2)
            with pytest.raises(TransferFailed):
                push(sender, layer_frame(request_id(4)))
                assert not sender.alive
        assert {request: len(reasons) for request, reasons in pair.sink.gone.items()} == {
            request_id(1): 1,
            request_id(3): 1,
        }
        assert (request_id(3), 0, 0) not in pair.sink.bodies
        fresh = pair.connect()
        push_all(fresh, request_id(5))
        finish(fresh, request_id(5))
    finally:
        pair.close()


def test_closing_the_sender_aborts_what_is_unfinished_without_a_complaint(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    sender = pair.connect()
    push(sender, layer_frame(request_id(1)))
    sender.close()
    sender.close()
    pair.sink.wait(lambda: pair.sink.gone[request_id(1)])
    with pytest.raises(TransferFailed, match="closed by this side"):
        push(sender, layer_frame(request_id(2)))
    sender.abort(request_id(1), "never raises")
    assert not caplog.records


def test_closing_the_listener_fails_the_sender_and_leaves_nothing(make: Case) -> None:
    process = psutil.Process()
    before = process.num_fds(), threading.active_count()
    pair = Pair(make)
    sender = pair.connect()
    push(sender, layer_frame(request_id(1)))
    pair.sink.wait(lambda: pair.sink.bodies)
    pair.listener.close()
    assert len(pair.sink.gone[request_id(1)]) == 1
    with pytest.raises(TransferFailed, match="closed by the peer"):
        push(sender, layer_frame(request_id(2)))
    pair.close()
    assert (process.num_fds(), threading.active_count()) == before


# Deadlines.


def test_connecting_to_nobody_is_a_clear_failure(make: Case) -> None:
    server, address = mute_server(make.scheme)
    with server:
        pass
    with pytest.raises(TransferFailed, match="cannot connect"):
        make(Limits()).connect(address, PREFILL, deadline=soon())


def test_a_peer_silent_in_the_handshake_ends_by_deadline(make: Case) -> None:
    server, address = mute_server(make.scheme)
    with server:
        begun = time.monotonic()
        with pytest.raises(TransferFailed) as failure:
            make(QUICK).connect(address, PREFILL, deadline=soon())
        assert failure.value.code is AbortCode.DEADLINE
        assert time.monotonic() - begun < 3


def test_a_link_that_stalls_in_mid_frame_ends_on_both_sides(quick_linked: Pair) -> None:
    with BadLink(quick_linked.listener.address, stall=3000) as link:
        sender = quick_linked.connect(link.address)
        begun = time.monotonic()
        with pytest.raises(TransferFailed):
            push(sender, layer_frame(request_id(1)))
            finish(sender, request_id(1))
        quick_linked.sink.wait(lambda: quick_linked.sink.gone[request_id(1)])
        assert time.monotonic() - begun < 5


def test_a_finish_that_nobody_answers_ends_by_its_deadline(pair: Pair) -> None:
    leave = threading.Event()
    pair.sink.finishing = lambda done: leave.wait(10) and None
    sender = pair.connect()
    push_all(sender, request_id(1))
    begun = time.monotonic()
    with pytest.raises(TransferFailed) as failure:
        sender.finish(FirstToken(request=request_id(1), token=1, prompt_tokens=40), deadline=soon(0.3))
    assert failure.value.code is AbortCode.DEADLINE and 0.25 < time.monotonic() - begun < 3
    leave.set()


def test_a_push_without_credit_ends_by_its_deadline_and_spares_the_others(make: Case) -> None:
    leave = threading.Event()

    def hold(frame: LayerFrame) -> None:
        if frame.request == request_id(1):
            leave.wait(10)

    pair = Pair(make, Limits(max_frame_bytes=70_000, credit_bytes=140_000))
    pair.sink.placing = hold
    try:
        sender = pair.connect()
        push(sender, layer_frame(request_id(1), count=64))
        push(sender, layer_frame(request_id(1), first_token=64, count=64))
        late = layer_frame(request_id(2), count=64)
        with pytest.raises(TransferFailed, match=r"credit|did not say where") as failure:
            sender.push(late, [memoryview(body_of(late))], deadline=soon(0.3))
        assert failure.value.code is AbortCode.DEADLINE
        leave.set()
        push_all(sender, request_id(3))
        finish(sender, request_id(3))
    finally:
        leave.set()
        pair.close()


def test_a_request_that_goes_quiet_is_aborted_and_the_connection_stays(quick: Pair) -> None:
    sender = quick.connect()
    push(sender, layer_frame(request_id(1)))
    quick.sink.wait(lambda: quick.sink.gone[request_id(1)])
    assert "request_s" in quick.sink.gone[request_id(1)][0]
    push_all(sender, request_id(2))
    finish(sender, request_id(2))


def test_an_idle_connection_lives_as_long_as_both_ends_do(quick: Pair) -> None:
    sender = quick.connect()
    time.sleep(3 * QUICK.idle_s)
    push_all(sender, request_id(1))
    finish(sender, request_id(1))


def test_a_peer_that_falls_silent_is_given_up(quick_linked: Pair, caplog: pytest.LogCaptureFixture) -> None:
    with BadLink(quick_linked.listener.address, stall=3000) as link:
        sender = quick_linked.connect(link.address)
        deadline = soon(5)
        while time.monotonic() < deadline:
            try:
                push(sender, layer_frame(request_id(1), count=1))
            except TransferFailed:
                break
            time.sleep(0.05)
        else:
            pytest.fail("the silence was not noticed")


@pytest.mark.parametrize("case", [case for case in TRANSPORTS if case.dripping], ids=lambda case: case.name)
def test_a_link_that_brings_a_byte_now_and_then_does_not_stop_the_clock(case: Case) -> None:
    pair = Pair(case, QUICK)
    try:
        with BadLink(pair.listener.address) as link:
            sender = pair.connect(link.address)
            push(sender, layer_frame(request_id(1)))
            pair.sink.wait(lambda: pair.sink.bodies)
            link.drip_s = 0.8 * QUICK.tick_s
            with pytest.raises(TransferFailed):
                push(sender, layer_frame(request_id(1), layer=1))
                finish(sender, request_id(1))
            pair.sink.wait(lambda: pair.sink.gone[request_id(1)], 30)
            assert link.dripped < HEAD_BYTES, "it waited for the head to end"
    finally:
        pair.close()


@pytest.mark.parametrize("case", [case for case in TRANSPORTS if case.open], ids=lambda case: case.name)
def test_a_peer_that_says_a_byte_now_and_then_is_given_up_as_a_silent_one(case: Case) -> None:
    pair = Pair(case, QUICK)
    try:
        with dial(pair.listener.address) as peer:
            connection = Connection(Role.PREFILL, PREFILL)
            peer.sendall(b"".join(connection.send(seal(connection.hello))))
            peer.settimeout(0.8 * QUICK.tick_s)
            ping, ended = b"".join(seal(Ping()).buffers), False
            for at in range(len(ping)):
                try:
                    peer.sendall(ping[at : at + 1])
                    ended = not peer.recv(1 << 16)
                except TimeoutError:
                    continue
                except OSError:
                    ended = True
                if ended:
                    break
                time.sleep(0.8 * QUICK.tick_s)
            assert ended, "the whole head was waited for"
    finally:
        pair.close()


# Strangers.


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\nHost: decode\r\n\r\n" * 4, bytes(64), os.urandom(4096), b"\xff" * 200_000]
)
def test_garbage_costs_one_log_line_and_its_connection(
    pair: Pair, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with dial(pair.listener.address) as stranger:
        stranger.sendall(garbage)
        received = b""
        try:
            while data := stranger.recv(4096):
                received += data
        except ConnectionResetError:
            pass
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    assert "illegal magic" in caplog.text
    assert b"illegal magic" in received, "the stranger is told why"
    sender = pair.connect()
    push_all(sender, request_id(1))
    finish(sender, request_id(1))


def test_a_stranger_who_says_nothing_is_let_go(quick: Pair) -> None:
    with dial(quick.listener.address) as stranger:
        while stranger.recv(4096):
            pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_no_listener_on_every_interface(make: Case, host: str) -> None:
    with pytest.raises(ValueError, match="every interface"):
        make(Limits()).listen(host, 0, DECODE, Sink())


def test_a_taken_port_is_an_error(make: Case) -> None:
    server, address = mute_server(make.scheme)
    with server, pytest.raises(OSError):
        make(Limits()).listen("127.0.0.1", int(address.rpartition(":")[2]), DECODE, Sink())


def test_a_thousand_connections_leave_nothing_behind(make: Case, pair: Pair) -> None:
    process = psutil.Process()
    pair.connect().close()
    before = process.num_fds() - 1, threading.active_count() - 1
    for number in range(1, 1001 if make.name == "tcp" else 301):
        sender = pair.transport.connect(pair.listener.address, PREFILL, deadline=soon())
        if number % 3 == 0:
            push(sender, layer_frame(request_id(number)))
        sender.close()
    now, deadline = before, soon()
    while time.monotonic() < deadline:
        now = process.num_fds(), threading.active_count()
        if now[0] <= before[0] + 1 and now[1] <= before[1] + 1:
            return
        time.sleep(0.01)
    pytest.fail(f"file descriptors and threads: before {before}, after {now}")


# Whose request it is.


def _half_a_request(pair: Pair) -> KvSender:
    """A sender of whose request one frame has landed."""
    sender = pair.connect()
    push(sender, layer_frame(request_id(1)))
    pair.sink.wait(lambda: pair.sink.bodies)
    return sender


def _goes_on(pair: Pair, sender: KvSender) -> None:
    push_all(sender, request_id(1))
    finish(sender, request_id(1))
    assert request_id(1) in pair.sink.done and not pair.sink.gone


def test_frames_of_a_request_from_another_connection_are_refused_and_the_first_goes_on(pair: Pair) -> None:
    first, second = _half_a_request(pair), pair.connect()
    with pytest.raises(TransferFailed, match="another connection") as failure:
        push_all(second, request_id(1))
        finish(second, request_id(1))
    assert failure.value.code is AbortCode.REFUSED
    _goes_on(pair, first)
    push_all(second, request_id(2))
    finish(second, request_id(2))


def test_a_first_token_from_another_connection_does_not_end_a_request(pair: Pair) -> None:
    first, second = _half_a_request(pair), pair.connect()
    with pytest.raises(TransferFailed, match="another connection") as failure:
        finish(second, request_id(1))
    assert failure.value.code is AbortCode.REFUSED and not pair.sink.done
    _goes_on(pair, first)


def test_an_abort_from_another_connection_does_not_end_a_request(pair: Pair) -> None:
    first, second = _half_a_request(pair), pair.connect()
    second.abort(request_id(1), "says another")
    push_all(second, request_id(2))
    finish(second, request_id(2))
    assert not pair.sink.gone
    _goes_on(pair, first)


def test_a_request_whose_connection_has_ended_may_come_over_another(pair: Pair) -> None:
    _half_a_request(pair).close()
    pair.sink.wait(lambda: pair.sink.gone[request_id(1)])
    again, deadline = pair.connect(), soon()
    while request_id(1) not in pair.sink.done:
        assert time.monotonic() < deadline
        try:
            push_all(again, request_id(1))
            finish(again, request_id(1))
        except TransferFailed:  # the other has told the sink, and is about to let go
            again = pair.connect()
