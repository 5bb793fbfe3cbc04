"""Who holds the deployment's secret gets through, nobody else; and what is encrypted cannot be read or altered."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence

import psutil
import pytest
from tests.contract.bad_link import BadLink
from tests.contract.kv_sink import Sink, require_all_tokens, soon
from tests.contract.transports import SECRET, dial
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id

from pdserve.transport.base import KvListener, KvSender, TransferFailed, Transport
from pdserve.transport.fake import FakeTransport
from pdserve.transport.security import TransportSecurity
from pdserve.transport.shm import ShmTransport
from pdserve.transport.tcp import TcpTransport
from pdwire import HEAD_BYTES, AbortCode, FirstToken, Limits, Secret, Security

OTHER = Secret(b"another secret of thirty-2 bytes")
QUICK = Limits(hello_s=1.0, frame_s=1.0, idle_s=1.5, request_s=1.0, complete_s=1.0, abort_s=1.0)
KINDS: dict[str, Callable[..., Transport]] = {"tcp": TcpTransport, "shm": ShmTransport, "fake": FakeTransport}
everywhere = pytest.mark.parametrize("kind", list(KINDS))
both = pytest.mark.parametrize("security", list(Security), ids=lambda security: security.name.lower())
BODY = b"KV of somebody's prompt, which is theirs. " * 400


def transport(
    kind: str, *secrets: Secret, security: Security = Security.AUTHENTICATED, limits: Limits = QUICK
) -> Transport:
    return KINDS[kind](limits, security=TransportSecurity(security, lambda: secrets) if secrets else None)


class Listening:
    """Decode's end, which holds `secrets` (they may be changed while it runs)."""

    def __init__(self, kind: str, secrets: Sequence[Secret] = (SECRET,), security: Security = Security.AUTHENTICATED):
        self.secrets = list(secrets)
        self.sink = Sink()
        self.sink.finishing = require_all_tokens(self.sink)
        held = TransportSecurity(security, lambda: self.secrets) if secrets else None
        self.listener: KvListener = KINDS[kind](QUICK, security=held).listen("127.0.0.1", 0, DECODE, self.sink)

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()

    @property
    def address(self) -> str:
        return self.listener.address


def send(sender: KvSender, number: int = 1) -> None:
    request = request_id(number)
    for layer in range(PREFILL.layers):
        frame = layer_frame(request, layer)
        sender.push(frame, [memoryview(BODY)[: frame.body_bytes]], deadline=soon())
    sender.finish(FirstToken(request=request, token=1, prompt_tokens=16), deadline=soon())


def connect(kind: str, address: str, *secrets: Secret, security: Security = Security.AUTHENTICATED) -> KvSender:
    return transport(kind, *secrets, security=security).connect(address, PREFILL, deadline=soon())


@everywhere
@both
def test_two_who_hold_the_secret_exchange_kv(kind: str, security: Security, caplog: pytest.LogCaptureFixture) -> None:
    with Listening(kind, security=security) as decode:
        sender = connect(kind, decode.address, SECRET, security=security)
        assert sender.peer == DECODE
        send(sender)
        sender.close()
        assert decode.sink.bodies[request_id(1), 3, 0] == BODY[: layer_frame(request_id(1)).body_bytes]
    assert not caplog.records


@everywhere
@both
@pytest.mark.parametrize(
    ("secrets", "words"),
    [((OTHER,), "no secret in common"), ((), "asks for the deployment's secret, and prefill was given none")],
    ids=["another", "none"],
)
def test_who_does_not_is_refused_by_name_and_costs_one_log_line(
    kind: str, security: Security, secrets: tuple[Secret, ...], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Listening(kind, security=security) as decode:
        with pytest.raises(TransferFailed, match=words) as failure:
            connect(kind, decode.address, *secrets, security=security)
        assert failure.value.code is AbortCode.UNAUTHENTICATED
        until_logged(caplog)
        sender = connect(kind, decode.address, SECRET, security=security)
        send(sender)
        sender.close()
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1


def until_logged(caplog: pytest.LogCaptureFixture) -> None:
    end = soon(5)
    while not caplog.records:
        assert time.monotonic() < end, "decode said nothing about it"
        time.sleep(0.01)


@everywhere
def test_a_decode_without_a_secret_is_told_nothing_and_prefill_says_what_is_missing(kind: str) -> None:
    with Listening(kind, secrets=()) as decode, pytest.raises(TransferFailed, match="has it a `secret_file`"):
        connect(kind, decode.address, SECRET)


@everywhere
def test_one_side_encrypted_and_the_other_not_is_an_error_that_names_both(kind: str) -> None:
    words = "prefill is set to `security: encrypted`, decode to `security: authenticated`"
    with Listening(kind) as decode, pytest.raises(TransferFailed, match=words):
        connect(kind, decode.address, SECRET, security=Security.ENCRYPTED)


@everywhere
@both
def test_a_stranger_learns_nothing_about_decode(kind: str, security: Security) -> None:
    with Listening(kind, security=security) as decode:
        heard = b""
        with dial(decode.address) as stranger:
            while data := stranger.recv(4096):
                heard += data
    assert DECODE.name.encode() not in heard and DECODE.model_digest.encode() not in heard
    assert SECRET.value not in heard and len(heard) < 4 * HEAD_BYTES + 1100


def test_two_hundred_strangers_take_little_memory() -> None:
    with Listening("tcp") as decode:
        before = psutil.Process().memory_info().rss
        strangers = [dial(decode.address) for _ in range(200)]
        for stranger in strangers:
            assert stranger.recv(HEAD_BYTES)
        assert psutil.Process().memory_info().rss - before < 24 << 20
        for stranger in strangers:
            stranger.close()


def test_strangers_do_not_keep_out_who_holds_the_secret() -> None:
    sink = Sink()
    decode = TcpTransport(
        QUICK, security=TransportSecurity(Security.AUTHENTICATED, lambda: [SECRET]), max_connections=3
    )
    listener = decode.listen("127.0.0.1", 0, DECODE, sink)
    strangers = [dial(listener.address) for _ in range(3)]
    for stranger in strangers:
        assert stranger.recv(HEAD_BYTES)
    try:
        senders = [connect("tcp", listener.address, SECRET) for _ in range(3)]
        for number, sender in enumerate(senders, 1):
            send(sender, number)
        with pytest.raises(TransferFailed, match=r"decode has 3 connections already|reset by peer"):
            connect("tcp", listener.address, SECRET)
        for sender in senders:
            sender.close()
    finally:
        listener.close()
        for stranger in strangers:
            stranger.close()


def test_a_flood_of_strangers_has_no_more_connections_than_there_may_be() -> None:
    held = TransportSecurity(Security.AUTHENTICATED, lambda: [SECRET])
    listener = TcpTransport(QUICK, security=held, max_connections=3).listen("127.0.0.1", 0, DECODE, Sink())
    counted: list[int] = []
    over = threading.Event()

    def count() -> None:
        while not over.wait(0.0005):
            counted.append(listener.connections)  # type: ignore[attr-defined]

    counter = threading.Thread(target=count)
    counter.start()
    strangers = []
    try:
        for _ in range(60):
            strangers.append(dial(listener.address))
            strangers[-1].settimeout(20)
            assert strangers[-1].recv(HEAD_BYTES)
    finally:
        over.set()
        counter.join()
        listener.close()
        for stranger in strangers:
            stranger.close()
    assert max(counted) <= 3


@both
def test_what_was_recorded_cannot_be_played_again(security: Security, caplog: pytest.LogCaptureFixture) -> None:
    with Listening("tcp", security=security) as decode:
        with BadLink(decode.address) as link:
            sender = connect("tcp", link.address, SECRET, security=security)
            send(sender)
            sender.close()
            recorded = bytes(link.said)
        decode.sink.bodies.clear()
        with dial(decode.address) as replayer:
            replayer.sendall(recorded)
            try:
                while replayer.recv(4096):
                    pass
            except ConnectionResetError:
                pass
        assert not decode.sink.bodies
        until_logged(caplog)
        assert "does not hold the deployment's secret" in caplog.text


@both
def test_only_encrypted_hides_what_crosses(security: Security) -> None:
    with Listening("tcp", security=security) as decode, BadLink(decode.address) as link:
        sender = connect("tcp", link.address, SECRET, security=security)
        send(sender)
        sender.close()
        crossed = bytes(link.said + link.answered)
    assert len(crossed) > 4 * layer_frame(request_id(1)).body_bytes
    hidden = [word not in crossed for word in (BODY[:42], DECODE.model_digest.encode(), request_id(1) + b"\0\0")]
    assert set(hidden) == {security is Security.ENCRYPTED}


@pytest.mark.parametrize("offset", [0, 3, 4, 500, 2000, 20_000])
def test_an_altered_byte_of_an_encrypted_connection_costs_it_on_both_sides(offset: int) -> None:
    """offset: from the end of prefill's PROOF."""
    proof_end = HEAD_BYTES + 104
    with Listening("tcp", security=Security.ENCRYPTED) as decode:
        with BadLink(decode.address, flip=proof_end + offset) as link, pytest.raises(TransferFailed):
            send(connect("tcp", link.address, SECRET, security=Security.ENCRYPTED))
        assert not decode.sink.done
        end = soon(5)
        while {request for request, _, _ in decode.sink.bodies} - set(decode.sink.gone):
            assert time.monotonic() < end, "the request is still held"
            time.sleep(0.01)


@pytest.mark.parametrize("streams", [1, 4])
@pytest.mark.parametrize(("pieces_out", "pieces_in"), [(1, 1), (3000, 7), (5, 1100)])
def test_large_frames_arrive_exactly_through_encryption(pieces_out: int, pieces_in: int, streams: int) -> None:
    encrypted = TransportSecurity(Security.ENCRYPTED, lambda: [SECRET])
    with Listening("tcp", security=Security.ENCRYPTED) as decode:
        decode.sink.pieces = pieces_in
        prefill = TcpTransport(security=encrypted, streams=streams)
        sender = prefill.connect(decode.address, PREFILL, deadline=soon())
        frame = layer_frame(request_id(1), count=8192)
        body = memoryview((BODY * (1 + frame.body_bytes // len(BODY)))[: frame.body_bytes])
        step = -(-len(body) // pieces_out)
        sender.push(frame, [body[at : at + step] for at in range(0, len(body), step)], deadline=soon())
        decode.sink.wait(lambda: decode.sink.bodies)
        assert decode.sink.bodies[request_id(1), 0, 0] == body
        sender.close()


@everywhere
def test_a_rotation_disturbs_nobody_and_then_the_old_secret_is_refused(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    held = [SECRET]
    prefill = KINDS[kind](QUICK, security=TransportSecurity(Security.AUTHENTICATED, lambda: held))
    with Listening(kind) as decode:
        old = prefill.connect(decode.address, PREFILL, deadline=soon())
        send(old, 1)
        decode.secrets[:] = [OTHER, SECRET]
        send(old, 2)
        assert old.alive, "prefill has not heard of it yet"
        send(prefill.connect(decode.address, PREFILL, deadline=soon()), 3)
        held[:] = [OTHER, SECRET]
        assert not old.alive, "time to connect anew"
        new = prefill.connect(decode.address, PREFILL, deadline=soon())
        send(new, 4)
        decode.secrets.remove(SECRET)
        with pytest.raises(TransferFailed, match="no secret in common"):
            connect(kind, decode.address, SECRET)
        send(new, 5)
        with pytest.raises(TransferFailed):
            for number in range(6, 100):
                send(old, number)
                time.sleep(0.05)
        assert "taken no longer" in caplog.text
        old.close()
        new.close()


def test_a_listener_that_closes_while_a_stranger_hesitates_leaves_no_thread() -> None:
    before = threading.active_count()
    with Listening("tcp") as decode:
        stranger = dial(decode.address)
        assert stranger.recv(10)
    stranger.close()
    end = soon(5)
    while threading.active_count() > before:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_peer_that_sends_one_byte_at_a_time_has_the_handshakes_deadline() -> None:
    with Listening("tcp") as decode, dial(decode.address) as stranger:
        begun = time.monotonic()
        with pytest.raises((BrokenPipeError, ConnectionResetError, socket.timeout)):
            while time.monotonic() - begun < 10:
                stranger.sendall(b"\xaf")
                time.sleep(0.05)
        assert time.monotonic() - begun < 5
