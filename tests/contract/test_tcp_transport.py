"""What only the tcp transport has: addresses, a bounded number of connections, peers that do not read."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from tests.contract.kv_sink import Sink, soon
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id

from pdserve.transport.base import KvListener, TransferFailed
from pdserve.transport.endpoint import MAX_QUEUED_BYTES
from pdserve.transport.stream import PeerGone, Stream
from pdserve.transport.tcp import TcpTransport
from pdwire import Abort, AbortCode, Connection, Role, seal


@pytest.fixture
def listener() -> Iterator[KvListener]:
    listener = TcpTransport(max_connections=2).listen("127.0.0.1", 0, DECODE, Sink())
    yield listener
    listener.close()


def test_one_connection_too_many_is_told_so_and_a_place_becomes_free_again(listener: KvListener) -> None:
    transport = TcpTransport()
    senders = [transport.connect(listener.address, PREFILL, deadline=soon()) for _ in range(2)]
    with pytest.raises(TransferFailed, match=r"decode has 2 connections already|reset by peer"):
        transport.connect(listener.address, PREFILL, deadline=soon())
    senders[0].close()
    deadline = soon()
    while True:
        try:
            senders.append(transport.connect(listener.address, PREFILL, deadline=deadline))
            break
        except TransferFailed as error:
            assert error.code is not AbortCode.DEADLINE, "the place never became free"
            time.sleep(0.02)
    for sender in senders:
        sender.close()


def test_a_peer_that_never_reads_is_given_up_before_its_answers_fill_memory(listener: KvListener) -> None:
    """Each of its ABORTs is owed an answer; it takes none."""
    host, port = listener.address.removeprefix("tcp://").split(":")
    prefill = Connection(Role.PREFILL, PREFILL)
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.settimeout(10)
        peer.connect((host, int(port)))
        peer.sendall(b"".join(prefill.send(seal(prefill.hello))))
        sent, reason = 0, "x" * 900
        with pytest.raises((ConnectionError, TimeoutError)) as error:
            for number in range(1, 200_000):
                frame = Abort(request=request_id(number), code=AbortCode.CANCELLED, reason=reason)
                raw = b"".join(seal(frame).buffers)
                peer.sendall(raw)
                sent += len(raw)
        assert error.type is not TimeoutError, "it stopped listening but kept the connection"
        assert sent < 64 * MAX_QUEUED_BYTES


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1:7101", "not of the form tcp://HOST:PORT"),
        ("rdma://127.0.0.1:7101", "not of the form tcp://HOST:PORT"),
        ("tcp://127.0.0.1", "not of the form tcp://HOST:PORT"),
        ("tcp://127.0.0.1:99999", "Port out of range"),
        ("tcp://decode.example:7101", "`decode.example` is not an IP address"),
    ],
)
def test_an_address_that_is_none_is_a_clear_failure(address: str, why: str) -> None:
    with pytest.raises(TransferFailed, match=why):
        TcpTransport().connect(address, PREFILL, deadline=soon())


def test_ipv6_and_localhost(capsys: pytest.CaptureFixture[str]) -> None:
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    for host in ("::1", "localhost"):
        sink = Sink()
        try:
            listener = TcpTransport().listen(host, 0, DECODE, sink)
        except OSError as error:
            pytest.skip(f"no {host} here: {error}")
        sender = TcpTransport().connect(listener.address, PREFILL, deadline=soon())
        frame = layer_frame(request_id(1))
        sender.push(frame, [memoryview(bytes(frame.body_bytes))], deadline=soon())
        sink.wait(lambda sink=sink: sink.bodies)  # type: ignore[misc]
        sender.close()
        listener.close()


def test_a_peer_that_takes_a_byte_now_and_then_does_not_hold_a_writer_beyond_its_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours, theirs:
        for sock, option in ((ours, socket.SO_SNDBUF), (theirs, socket.SO_RCVBUF)):
            sock.setsockopt(socket.SOL_SOCKET, option, 32 << 10)
        stream = Stream(ours, "a slow reader", tick_s=1.0)
        over = threading.Event()

        def read() -> None:
            for _ in range(1500):  # 6 MiB in 15 s
                if over.wait(0.01):
                    return
                theirs.recv(4096)

        reader = threading.Thread(target=read)
        reader.start()
        began = time.monotonic()
        try:
            with pytest.raises(PeerGone, match="does not take"):
                stream.write([memoryview(bytes(64 << 20))], began + 1.0)
            assert reader.is_alive(), "it was let go only when it took nothing any more"
        finally:
            over.set()
            reader.join()
