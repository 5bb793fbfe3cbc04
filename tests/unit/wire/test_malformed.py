"""Every way in which a frame can be wrong has its own message, and no byte of memory is taken for it."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kv_examples import PREFILL, layer_frame, request_id
from tests.unit.wire.peers import TINY_DECODE, Peers, control_frames, deliver, kv_body, one_of_each

from pdwire import (
    CONNECTION,
    HEAD_BYTES,
    Connection,
    ConnectionState,
    Frame,
    Hello,
    IncompatiblePeer,
    Kind,
    LayerFrame,
    LocalProtocolError,
    Offer,
    RemoteProtocolError,
    Role,
    WireError,
    seal,
    strictjson,
)
from pdwire.header import read_head, write_control_head

LAYER = layer_frame(request_id(1), layer=2, first_token=32)


def head_of(frame: Frame = LAYER) -> bytearray:
    body = [kv_body(frame)] if isinstance(frame, LayerFrame) else ()
    return bytearray(seal(frame, body).buffers[0][:HEAD_BYTES])


def poke(fmt: str, at: int, *values: int) -> Callable[[bytearray], None]:
    return lambda head: struct.pack_into("<" + fmt, head, at, *values)


HEADS: list[tuple[str, Callable[[bytearray], None], str]] = [
    ("another magic", poke("I", 0, 0xDEADBEEF), r"illegal magic: b'\\xef\\xbe\\xad\\xde'"),
    ("big-endian header", poke("I", 0, 0xAFBEADDE), "header is big-endian, the wire is little-endian"),
    ("another version", poke("B", 4, 2), "protocol version 2, this side speaks 1"),
    ("big-endian body", poke("B", 5, 1), "body is big-endian, the wire is little-endian"),
    ("unknown flag", poke("B", 5, 0x82), "unknown flags: 0x82"),
    ("unknown dtype", poke("B", 6, 77), "unknown dtype code: 77"),
    ("no dtype", poke("B", 6, 0), "unknown dtype code: 0"),
    ("unknown kind", poke("B", 7, 200), "unknown frame kind: 200"),
    ("shorter than its head", poke("Q", 8, 63), "length 63 is shorter than the 64 bytes of a head"),
    ("longer than its shape", poke("Q", 8, 1 << 40), "length 1099511627776 of request .* imply 16448"),
    ("shorter than its shape", poke("Q", 8, 16447), "length 16447 of request .* imply 16448"),
    ("two layers", poke("H", 16, 2), "a layer frame has 1 layer in its shape: 2"),
    ("no head", poke("H", 18, 0), "kv heads must be 1 to 65535: 0"),
    ("tokens unlike the count", poke("H", 20, 17), "shape has 17 tokens, descriptor 16"),
    ("no head size", poke("H", 22, 0), "head dim must be 1 to 65535: 0"),
    ("zero request", poke("QQ", 32, 0, 0), "request id must not be all zero"),
    ("unknown part", poke("H", 50, 1), "unknown part: 1"),
    ("tokens beyond 32 bits", poke("I", 52, 0xFFFFFFFF), "first token must be 0 to"),
    ("reserved", poke("I", 60, 5), "reserved descriptor field is not zero: 0x5"),
]


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in HEADS], ids=[case[0] for case in HEADS])
def test_a_malformed_head_is_refused_by_its_own_name(change: Callable[[bytearray], None], message: str) -> None:
    head = head_of()
    change(head)
    peers = Peers()
    with pytest.raises(RemoteProtocolError, match=message):
        peers.decode.begin(head)
    assert peers.decode.state is ConnectionState.BROKEN


CONTROL_HEADS: list[tuple[str, Kind, bytes, Callable[[bytearray], None], str]] = [
    ("control of 64 KiB and one", Kind.PING, CONNECTION, poke("Q", 8, 65537), "control frames have at most 65536"),
    ("control with a dtype", Kind.PING, CONNECTION, poke("B", 6, 1), "ping with a dtype, shape or token range"),
    ("control with a shape", Kind.BYE, CONNECTION, poke("H", 20, 1), "bye with a dtype, shape or token range"),
    ("control with tokens", Kind.COMPLETE, request_id(1), poke("I", 56, 1), "complete with a dtype, shape or token"),
    ("credit for one request", Kind.CREDIT, request_id(1), poke("B", 5, 0), "credit for one request"),
    ("complete for none", Kind.COMPLETE, CONNECTION, poke("B", 5, 0), "request id must not be all zero"),
]


@pytest.mark.parametrize(
    ("kind", "request_", "change", "message"), [case[1:] for case in CONTROL_HEADS], ids=[c[0] for c in CONTROL_HEADS]
)
def test_a_malformed_control_head_is_refused(
    kind: Kind, request_: bytes, change: Callable[[bytearray], None], message: str
) -> None:
    head = bytearray(write_control_head(kind, request_, b""))
    change(head)
    with pytest.raises(RemoteProtocolError, match=message):
        read_head(head)


def hello_json(**changes: object) -> bytes:
    body = json.loads(b"".join(seal(Hello(role=Role.PREFILL, record=PREFILL, offer=Offer())).buffers)[HEAD_BYTES:])
    for path, value in changes.items():
        *parents, key = path.split("__")
        target = body
        for parent in parents:
            target = target[parent]
        if value is ...:
            del target[key]
        else:
            target[key] = value
    return json.dumps(body).encode()


DEEP = b"[" * 30_000
BODIES: list[tuple[str, Kind, bytes, str]] = [
    ("not json", Kind.HELLO, b"{", "hello is not json"),
    ("not utf-8", Kind.HELLO, b'{"a":"\xff"}', "hello is not json"),
    ("nested beyond reason", Kind.HELLO, DEEP, "hello is not json"),
    ("not an object", Kind.HELLO, b"[]", "hello must be an object"),
    ("not finite", Kind.HELLO, b'{"a":NaN}', "json number NaN is not finite"),
    ("a number of 5000 digits", Kind.HELLO, b'{"a":' + b"9" * 5000 + b"}", "hello is not json"),
    ("a key twice", Kind.HELLO, b'{"role":"prefill","role":"decode"}', "json key twice: 'role'"),
    ("unknown key", Kind.HELLO, hello_json(extra=1), "hello has an unknown key 'extra'"),
    ("unknown record key", Kind.HELLO, hello_json(record__extra=1), "hello record has an unknown key 'extra'"),
    ("unknown conversion", Kind.HELLO, hello_json(converts=["magic"]), "unknown conversion: 'magic'"),
    ("a conversion twice", Kind.HELLO, hello_json(converts=["tp", "tp"]), "converts must name each conversion once"),
    ("no conversion", Kind.HELLO, hello_json(converts=[]), "converts is left out where it is empty"),
    ("conversions as text", Kind.HELLO, hello_json(converts="tp"), "hello converts must be a list of at most 6"),
    ("utf-16", Kind.HELLO, hello_json().decode().encode("utf-16"), "hello is not json"),
    ("utf-16 without a mark", Kind.HELLO, hello_json().decode().encode("utf-16-le"), "hello is not json"),
    ("utf-32", Kind.HELLO, hello_json().decode().encode("utf-32-be"), "hello is not json"),
    ("a byte order mark", Kind.HELLO, b"\xef\xbb\xbf" + hello_json(), "hello is not json"),
    ("missing key", Kind.HELLO, hello_json(record__layers=...), "hello record has no 'layers'"),
    ("unknown role", Kind.HELLO, hello_json(role="router"), "unknown role: 'router'"),
    ("wrong role", Kind.HELLO, hello_json(role="decode"), "peer of decode must be prefill: 'decode'"),
    ("layers as text", Kind.HELLO, hello_json(record__layers="4"), "layers must be an integer: '4'"),
    ("layers as a bool", Kind.HELLO, hello_json(record__layers=True), "layers must be an integer: True"),
    ("no layer", Kind.HELLO, hello_json(record__layers=0), "layers must be 1 to"),
    ("unknown dtype", Kind.HELLO, hello_json(record__dtype="int4"), r"unknown dtype 'int4' \(known: float32, "),
    ("a line break in a name", Kind.HELLO, hello_json(record__name="a\nb"), r"name must be printable.*'a\\nb'"),
    ("a lone surrogate", Kind.HELLO, hello_json(record__name="\ud800"), "name must be printable"),
    ("a long name", Kind.HELLO, hello_json(record__name="a" * 129), "name must be at most 128 characters"),
    ("rank beyond size", Kind.HELLO, hello_json(record__tp_rank=1), "tp_rank must be 0 to 0: 1"),
    (
        "heads that do not divide",
        Kind.HELLO,
        hello_json(record__tp_size=3, record__tp_rank=0),
        "must divide kv_heads 2",
    ),
    ("no transport", Kind.HELLO, hello_json(record__transports=[]), "transports must name 1 to 16"),
    ("transport as a number", Kind.HELLO, hello_json(record__transports=[1]), "transport must be text: 1"),
    ("rope as a list of text", Kind.HELLO, hello_json(record__rope={"x": ["1"]}), "rope x must be a number: '1'"),
    ("rope as an object", Kind.HELLO, hello_json(record__rope={"x": {}}), "rope x must be a scalar or a list"),
    ("a huge rope number", Kind.HELLO, hello_json(record__rope={"x": 10**400}), "rope x must be finite"),
    ("an offer of nothing", Kind.HELLO, hello_json(offer__max_frame_bytes=1), "max_frame_bytes must be 65536 to"),
    ("credit below a frame", Kind.HELLO, hello_json(offer__credit_bytes=65536), "credit_bytes must cover one frame"),
    ("idle for ever", Kind.HELLO, hello_json(offer__idle_s=1e9), "idle_s must be 0.01 to 86400 s"),
    ("first token without fields", Kind.FIRST_TOKEN, b'{"token":1}', "first token has no 'logprob'"),
    (
        "a token of 33 bits",
        Kind.FIRST_TOKEN,
        b'{"token":4294967296,"prompt_tokens":1,"logprob":null,"finish_reason":null,"meta":{}}',
        "token must be 0 to 4294967295: 4294967296",
    ),
    (
        "an empty prompt",
        Kind.FIRST_TOKEN,
        b'{"token":1,"prompt_tokens":0,"logprob":null,"finish_reason":null,"meta":{}}',
        "prompt_tokens must be 1 to",
    ),
    (
        "meta with an object",
        Kind.FIRST_TOKEN,
        b'{"token":1,"prompt_tokens":1,"logprob":null,"finish_reason":null,"meta":{"a":{}}}',
        "meta 'a' must be a scalar",
    ),
    ("unknown abort code", Kind.ABORT, b'{"code":99,"reason":"x"}', "unknown abort code: 99"),
    ("a reason without end", Kind.ABORT, b'{"code":1,"reason":"' + b"x" * 1001 + b'"}', "reason must be at most 1000"),
    ("a reason with a break", Kind.ABORT, b'{"code":1,"reason":"a\\nb"}', "reason must be printable"),
    ("an empty reason", Kind.ABORT, b'{"code":1,"reason":""}', "reason must be printable and not empty"),
    ("a ping with a body", Kind.PING, b"x", "ping has no body: 1 bytes"),
]


@pytest.mark.parametrize(("kind", "body", "message"), [case[1:] for case in BODIES], ids=[case[0] for case in BODIES])
def test_a_malformed_body_is_refused_by_its_own_name(kind: Kind, body: bytes, message: str) -> None:
    peers = Peers(greet=kind is not Kind.HELLO)
    request = request_id(1) if kind in (Kind.FIRST_TOKEN, Kind.ABORT) else CONNECTION
    with pytest.raises(RemoteProtocolError, match=message):
        deliver(peers.decode, write_control_head(kind, request, body) + body)
    assert peers.decode.state is ConnectionState.BROKEN


@pytest.mark.parametrize(
    "body",
    [
        hello_json(record__name="x" * 60_000),
        hello_json(record__name=[1] * 20_000),
        hello_json(record__layers=10**4000),
        hello_json(**{"x" * 60_000: 1}),
        hello_json(record__rope={"x" * 60_000: []}),
        hello_json(record__transports=["x" * 60_000]),
        b'{"a":1,' * 9000,
    ],
)
def test_what_a_stranger_says_does_not_fill_the_log(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as error:
        deliver(Peers(greet=False).decode, write_control_head(Kind.HELLO, CONNECTION, body) + body)
    assert len(str(error.value)) < 400 and str(error.value).isprintable()


def test_a_credit_of_another_size_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="credit has a body of 8 bytes: 7"):
        deliver(Peers().prefill, write_control_head(Kind.CREDIT, CONNECTION, b"1234567") + b"1234567")


def test_no_two_malformed_heads_share_a_message() -> None:
    messages = []
    for _, change, _ in HEADS:
        head = head_of()
        change(head)
        with pytest.raises(RemoteProtocolError) as error:
            read_head(head)
        messages.append(str(error.value))
    assert len(set(messages)) == len(HEADS)


@given(st.binary(max_size=400))
def test_any_bytes_end_in_an_answer(data: bytes) -> None:
    listen(data)


@settings(max_examples=300)
@given(st.data())
def test_any_mutation_of_a_conversation_ends_in_an_answer(data: st.DataObject) -> None:
    said = [
        b"".join(seal(frame, [body] if body else ()).buffers)
        for role, frame, body in one_of_each()
        if role is Role.PREFILL
    ]
    raw = bytearray(b"".join(said))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.sampled_from(["set", "cut", "repeat"])):
            case "set":
                raw[at] = data.draw(st.integers(0, 255))
            case "cut":
                del raw[at : at + data.draw(st.integers(1, 100))]
                raw += b"x"
            case "repeat":
                raw[at:at] = raw[at : at + data.draw(st.integers(1, 100))]
    listen(bytes(raw))


@settings(max_examples=300)
@given(control_frames, st.binary(max_size=200))
def test_a_sound_checksum_over_a_senseless_body_ends_in_an_answer(frame: Frame, body: bytes) -> None:
    """What an attacker would send: heads and checksums in order, bodies not."""
    head = read_head(seal(frame).buffers[0][:HEAD_BYTES])
    raw = write_control_head(head.kind, head.request, body) + body
    for peers in (Peers(), Peers(greet=False)):
        for end in (peers.decode, peers.prefill):
            try:
                deliver(end, raw)
            except WireError as error:
                assert isinstance(error, RemoteProtocolError | IncompatiblePeer)


def listen(data: bytes) -> None:
    decode = Connection(Role.DECODE, TINY_DECODE)
    decode.feed(data)
    try:
        while (event := decode.next_event()) is not None:
            if isinstance(event.frame, Hello):
                decode.send(seal(decode.hello))
    except (RemoteProtocolError, IncompatiblePeer) as error:
        assert str(error)


def test_many_keys_of_which_the_last_is_there_twice_are_refused_at_once() -> None:
    body = json.dumps({f"k{number}": 0 for number in range(7200)}).encode()[:-1] + b',"k7199":0}'
    began = time.process_time()
    with pytest.raises(LocalProtocolError, match="json key twice: 'k7199'"):
        strictjson.load("hello", body)
    assert time.process_time() - began < 0.5, "as long as it takes to count each key in all of them"
