"""The two ends of a connection: what each may say, credit, deadlines, aborts that cross."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id
from tests.unit.wire.peers import Peers, deliver, kv_body, wire_bytes

from pdwire import (
    CONNECTION,
    Abort,
    AbortCode,
    Bye,
    Complete,
    Connection,
    ConnectionState,
    Conversion,
    Credit,
    DType,
    FirstToken,
    Hello,
    IncompatiblePeer,
    LayerFrame,
    Limits,
    LocalProtocolError,
    Offer,
    Ping,
    RemoteProtocolError,
    RequestState,
    Role,
    seal,
)

FRAME = layer_frame(request_id(1))
BODY = kv_body(FRAME)
FRAME_BYTES = 64 + len(BODY)
DONE = FirstToken(request=request_id(1), token=3, prompt_tokens=16)
SMALL = Limits(max_frame_bytes=65536, credit_bytes=65536)


def abort(number: int = 1) -> Abort:
    return Abort(request=request_id(number), code=AbortCode.CANCELLED, reason="nobody waits")


def test_a_request_from_its_first_layer_to_complete_leaves_nothing() -> None:
    peers = Peers()
    peers.say(peers.prefill, FRAME, BODY)
    peers.say(peers.prefill, DONE)
    assert peers.decode.requests == {request_id(1): RequestState.FINISHING}
    peers.say(peers.decode, Complete(request=request_id(1)))
    assert not peers.prefill.requests and not peers.decode.requests


@pytest.mark.parametrize("frame", [FRAME, DONE, abort(), Ping()], ids=lambda frame: type(frame).__name__)
def test_nothing_but_hello_may_be_said_first(frame: LayerFrame | FirstToken | Abort | Ping) -> None:
    peers = Peers(greet=False)
    sealed = seal(frame, [BODY] if isinstance(frame, LayerFrame) else ())
    with pytest.raises(LocalProtocolError, match=r"prefill may not say \w+ while the connection is start"):
        peers.prefill.send(sealed)
    with pytest.raises(RemoteProtocolError, match=r"prefill may not say \w+ while the connection is start"):
        deliver(peers.decode, b"".join(sealed.buffers))


def test_decode_waits_for_the_hello_of_prefill() -> None:
    peers = Peers(greet=False)
    with pytest.raises(LocalProtocolError, match="decode may not say hello while the connection is start"):
        peers.decode.send(seal(peers.decode.hello))


def test_only_one_hello_from_each_side() -> None:
    peers = Peers()
    with pytest.raises(LocalProtocolError, match="prefill may not say hello while the connection is open"):
        peers.prefill.send(seal(peers.prefill.hello))


def test_a_refused_call_changes_nothing() -> None:
    peers = Peers()
    for wrong in (Complete(request=request_id(1)), Credit(total=1 << 30)):
        with pytest.raises(LocalProtocolError):
            peers.prefill.send(seal(wrong))
    peers.say(peers.prefill, FRAME, BODY)
    assert peers.decode.requests == peers.prefill.requests == {request_id(1): RequestState.STREAMING}


def test_a_layer_after_the_first_token_is_out_of_order() -> None:
    peers = Peers()
    peers.say(peers.prefill, DONE)
    with pytest.raises(LocalProtocolError, match=r"layer for request \w+, which is finishing"):
        peers.prefill.send(seal(FRAME, [BODY]))
    with pytest.raises(RemoteProtocolError, match=r"prefill may not say layer for request \w+, which is finishing"):
        deliver(peers.decode, b"".join(seal(FRAME, [BODY]).buffers))
    assert peers.decode.state is ConnectionState.BROKEN


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": DType.FLOAT16}, "layer 0 dtype: expected float32, got float16: .*; change prefill: "),
        ({"kv_heads": 6}, "layer 0 kv_heads: expected 2, got 6: 3 times the model's KV heads"),
        ({"head_dim": 65}, "layer 0 head_dim: expected 64, got 65: "),
        ({"layer": 4}, "layer 4 layer: expected 0 to 3, got 4: the model has no such layer"),
        ({"first_token": (1 << 20) - 15}, "layer 0 tokens: expected positions below 1048576, got 1048561..1048576: "),
        ({"count": 64}, "has 65600 bytes, more than max_frame_bytes 65536"),
    ],
)
def test_a_kv_frame_outside_what_was_negotiated_is_refused_on_both_sides(change: dict[str, int], message: str) -> None:
    peers = Peers(SMALL)
    frame = replace(FRAME, **change)
    sealed = seal(frame, [kv_body(frame)])
    with pytest.raises(LocalProtocolError, match=message):
        peers.prefill.send(sealed)
    with pytest.raises(RemoteProtocolError, match=message):
        peers.decode.begin(sealed.buffers[0])


def test_the_peer_s_offer_binds_not_ones_own() -> None:
    prefill, decode = Connection(Role.PREFILL, PREFILL), Connection(Role.DECODE, DECODE, SMALL)
    deliver(decode, wire_bytes(prefill, prefill.hello))
    deliver(prefill, wire_bytes(decode, decode.hello))
    frame = layer_frame(request_id(1), count=64)
    with pytest.raises(LocalProtocolError, match="more than max_frame_bytes 65536"):
        prefill.send(seal(frame, [kv_body(frame)]))


# Credit.


def test_prefill_stops_when_its_credit_is_spent_and_goes_on_when_decode_has_room() -> None:
    peers = Peers(SMALL)
    wires = []
    for layer in range(3):
        frame = replace(FRAME, layer=layer)
        wires.append(wire_bytes(peers.prefill, frame, BODY))
    assert peers.prefill.credit == 65536 - 3 * FRAME_BYTES < FRAME_BYTES
    fourth = replace(FRAME, layer=3)
    with pytest.raises(LocalProtocolError, match="more than the credit of 16192"):
        peers.prefill.send(seal(fourth, [BODY]))
    for raw in wires:
        deliver(peers.decode, raw)
    peers.settle()
    assert peers.prefill.credit == 65536
    assert peers.say(peers.prefill, fourth, BODY)[0].frame == fourth


def test_a_peer_that_sends_beyond_its_credit_is_refused_before_its_bytes_are_read() -> None:
    peers = Peers(SMALL)
    head = b""
    for layer in range(4):
        head, body = seal(replace(FRAME, layer=layer), [BODY]).buffers
        if layer < 3:
            deliver(peers.decode, bytes(head) + bytes(body))
    with pytest.raises(RemoteProtocolError, match="more than the credit of 16192"):
        peers.decode.begin(head)


def test_credit_is_granted_in_large_steps() -> None:
    peers = Peers()
    peers.say(peers.prefill, FRAME, BODY)
    assert peers.decode.owed() == []


def test_credit_that_shrinks_is_refused() -> None:
    peers = Peers()
    with pytest.raises(RemoteProtocolError, match="credit shrinks from 134217728 to 5"):
        deliver(peers.prefill, b"".join(seal(Credit(total=5)).buffers))


def test_more_requests_than_decode_takes_are_refused_on_both_sides() -> None:
    peers = Peers(Limits(max_requests=2))
    for number in (1, 2):
        peers.say(peers.prefill, layer_frame(request_id(number)), BODY)
    third = seal(layer_frame(request_id(3)), [BODY])
    with pytest.raises(LocalProtocolError, match="one more than the 2 that decode takes at a time"):
        peers.prefill.send(third)
    with pytest.raises(RemoteProtocolError, match="one more than the 2 that decode takes at a time"):
        peers.decode.begin(third.buffers[0])


# Aborts.


@pytest.mark.parametrize("role", Role)
def test_an_abort_is_answered_once_and_then_the_request_is_forgotten(role: Role) -> None:
    peers = Peers()
    peers.say(peers.prefill, FRAME, BODY)
    end = peers.prefill if role is Role.PREFILL else peers.decode
    other = peers.other(end)
    peers.say(end, abort())
    assert [frame for frame in other.owed() if isinstance(frame, Abort)] == [abort()]
    peers.say(other, abort())
    assert not peers.prefill.requests and not peers.decode.requests
    assert not peers.prefill.owed() and not peers.decode.owed()


def test_aborts_that_cross_are_each_other_s_answer() -> None:
    peers = Peers()
    peers.say(peers.prefill, FRAME, BODY)
    forth, back = wire_bytes(peers.prefill, abort()), wire_bytes(peers.decode, abort())
    deliver(peers.decode, forth)
    deliver(peers.prefill, back)
    assert not peers.prefill.requests and not peers.decode.requests
    assert not peers.prefill.owed() and not peers.decode.owed()


def test_what_was_on_its_way_when_decode_aborted_is_not_wanted() -> None:
    peers = Peers()
    peers.say(peers.prefill, FRAME, BODY)
    late = wire_bytes(peers.prefill, replace(FRAME, layer=1), BODY)
    late_token = wire_bytes(peers.prefill, DONE)
    back = wire_bytes(peers.decode, abort())
    incoming = peers.decode.begin(late[:64])
    assert not incoming.wanted
    incoming.update(late[64:])
    incoming.finish()
    deliver(peers.decode, late_token)
    assert peers.decode.requests == {request_id(1): RequestState.ABORTED_BY_DECODE}
    deliver(peers.prefill, back)
    with pytest.raises(LocalProtocolError, match="aborted by decode"):
        peers.prefill.send(seal(replace(FRAME, layer=2), [BODY]))
    peers.settle()
    assert not peers.prefill.requests and not peers.decode.requests


def test_an_abort_during_a_body_makes_the_rest_of_it_unwanted() -> None:
    peers = Peers()
    raw = wire_bytes(peers.prefill, FRAME, BODY)
    incoming = peers.decode.begin(raw[:64])
    assert incoming.wanted
    peers.decode.send(seal(abort()))
    assert not incoming.wanted
    incoming.update(raw[64:])
    assert incoming.finish() == FRAME


def test_an_abort_that_crosses_complete_is_answered_too() -> None:
    peers = Peers()
    peers.say(peers.prefill, DONE)
    forth = wire_bytes(peers.prefill, abort())
    back = wire_bytes(peers.decode, Complete(request=request_id(1)))
    deliver(peers.prefill, back)
    assert peers.prefill.requests == {request_id(1): RequestState.ABORTED_BY_PREFILL}
    deliver(peers.decode, forth)
    peers.settle()
    assert not peers.prefill.requests and not peers.decode.requests


@pytest.mark.parametrize("greet", [True, False])
def test_an_abort_of_the_connection_is_allowed_at_any_time(greet: bool) -> None:
    peers = Peers(greet=greet)
    frame = Abort.because(AbortCode.REFUSED, "full")
    assert peers.say(peers.decode, frame)[0].frame == frame
    assert peers.prefill.state is peers.decode.state is ConnectionState.BROKEN


def test_after_bye_nothing_more_is_in_order() -> None:
    peers = Peers()
    peers.say(peers.prefill, Bye())
    assert peers.prefill.state is peers.decode.state is ConnectionState.CLOSED
    with pytest.raises(LocalProtocolError, match="while the connection is closed"):
        peers.prefill.send(seal(Ping()))
    peers.decode.lost()
    assert peers.decode.state is ConnectionState.CLOSED


def test_a_reason_of_any_text_becomes_one_bounded_line() -> None:
    abort = Abort.because(AbortCode.INTERNAL, "first\nsecond\x00\t" + "x" * 5000)
    assert abort.reason.startswith("first second x") and len(abort.reason) == 1000
    assert Abort.because(AbortCode.INTERNAL, "\n").reason == "internal"


# Deadlines.


def test_a_connection_without_hellos_ends_after_hello_s() -> None:
    peers = Peers(greet=False)
    peers.clock.now += 5.1
    for end in (peers.prefill, peers.decode):
        with pytest.raises(RemoteProtocolError, match=r"nothing from the peer for 5 s \(hello_s\)"):
            end.overdue()
        assert end.state is ConnectionState.BROKEN


def test_bytes_do_not_prolong_the_handshake() -> None:
    peers = Peers(greet=False)
    peers.clock.now += 4.9
    peers.say(peers.prefill, peers.prefill.hello)
    peers.clock.now += 0.2
    with pytest.raises(RemoteProtocolError, match="hello_s"):
        peers.decode.overdue()


def test_a_silent_peer_is_given_up_after_idle_s() -> None:
    peers = Peers()
    peers.clock.now += 15.1
    with pytest.raises(RemoteProtocolError, match=r"nothing from the peer for 15 s \(idle_s\)"):
        peers.decode.overdue()


def test_signs_of_life_come_three_times_as_often_as_the_peer_needs() -> None:
    peers = Peers(Limits(idle_s=9))
    for _ in range(20):
        peers.clock.now += 3
        assert peers.prefill.owed() == [Ping()] == peers.decode.owed()
        peers.settle()
        assert not peers.prefill.overdue() and not peers.decode.overdue()


@pytest.mark.parametrize(("said", "name", "seconds"), [(FRAME, "request_s", 60), (DONE, "complete_s", 10)])
def test_a_request_that_stands_still_is_aborted_on_both_sides(
    said: LayerFrame | FirstToken, name: str, seconds: float
) -> None:
    peers = Peers(Limits(idle_s=1000))
    peers.say(peers.prefill, said, BODY if said is FRAME else b"")
    for end in (peers.prefill, peers.decode):
        assert not end.overdue()
    peers.clock.now += seconds + 0.1
    for end in (peers.prefill, peers.decode):
        (overdue,) = end.overdue()
        assert overdue.code is AbortCode.DEADLINE and name in overdue.reason and overdue.request == request_id(1)


def test_an_abort_that_is_not_answered_breaks_the_connection() -> None:
    peers = Peers()
    peers.say(peers.prefill, FRAME, BODY)
    peers.say(peers.decode, abort())
    peers.clock.now += 4
    deliver(peers.decode, b"".join(seal(replace(FRAME, layer=1), [BODY]).buffers))
    assert not peers.decode.overdue()
    peers.clock.now += 2
    with pytest.raises(RemoteProtocolError, match=r"aborted by decode: nothing from the peer for 5 s \(abort_s\)"):
        peers.decode.overdue()


def test_a_request_that_moves_on_is_never_overdue() -> None:
    peers = Peers(Limits(idle_s=1000))
    for number in range(10):
        peers.say(peers.prefill, replace(FRAME, first_token=16 * number), BODY)
        peers.clock.now += 50
        assert not peers.prefill.overdue() and not peers.decode.overdue()


# Verdicts.


def test_both_sides_reach_the_same_verdict_and_may_not_go_on() -> None:
    prefill = Connection(Role.PREFILL, PREFILL)
    decode = Connection(Role.DECODE, replace(DECODE, dtype=DType.BFLOAT16))
    with pytest.raises(IncompatiblePeer) as at_decode:
        deliver(decode, wire_bytes(prefill, prefill.hello))
    with pytest.raises(IncompatiblePeer) as at_prefill:
        deliver(prefill, wire_bytes(decode, decode.hello))
    assert at_decode.value.verdict == at_prefill.value.verdict
    assert "dtype: prefill float32, decode bfloat16" in str(at_prefill.value)
    assert prefill.state is decode.state is ConnectionState.BROKEN


def test_what_decode_can_convert_comes_in_the_form_that_prefill_computed() -> None:
    can = frozenset({Conversion.ROUNDING})
    prefill = Connection(Role.PREFILL, PREFILL, can=can)
    decode = Connection(Role.DECODE, replace(DECODE, dtype=DType.BFLOAT16), can=can)
    deliver(decode, wire_bytes(prefill, prefill.hello))
    deliver(prefill, wire_bytes(decode, decode.hello))
    assert deliver(decode, wire_bytes(prefill, FRAME, BODY))[0].frame == FRAME


def test_a_hello_other_than_one_s_own_is_not_sent() -> None:
    prefill = Connection(Role.PREFILL, PREFILL)
    with pytest.raises(LocalProtocolError, match="own record"):
        prefill.send(seal(Hello(role=Role.PREFILL, record=DECODE, offer=Offer())))


@pytest.mark.parametrize("end", ["bye", "abort of the connection"])
def test_who_aborts_a_request_and_leaves_at_once_is_owed_nothing(end: str) -> None:
    """Found by fuzzing: the answer to an ABORT was owed on a connection that was closed already."""
    peers = Peers()
    abort = Abort(request=request_id(1), code=AbortCode.CANCELLED, reason="client left")
    last = Bye() if end == "bye" else Abort(request=CONNECTION, code=AbortCode.INTERNAL, reason="out of memory")
    for frame in (abort, last):
        peers.say(peers.prefill, frame)
    assert peers.decode.owed() == []


@pytest.mark.parametrize("leaves", [({Conversion.DTYPE}, set()), (set(), {Conversion.DTYPE})])
def test_a_conversion_that_one_side_alone_agrees_to_is_refused_by_both(
    leaves: tuple[set[Conversion], set[Conversion]],
) -> None:
    prefill = Connection(Role.PREFILL, replace(PREFILL, dtype=DType.BFLOAT16), can=leaves[0])
    decode = Connection(Role.DECODE, replace(DECODE, dtype=DType.FLOAT32), can=leaves[1])
    for one, other in ((prefill, decode), (decode, prefill)):
        for buffer in one.send(seal(one.hello)):
            other.feed(buffer)
        with pytest.raises(IncompatiblePeer, match="dtype: prefill bfloat16, decode float32"):
            other.next_event()
    assert prefill.verdict == decode.verdict
