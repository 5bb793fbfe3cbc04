"""What holds of shared memory beyond the contract suite: who may write, until when, and what is left afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.contract.kv_sink import Sink, soon
from tests.contract.test_kv_transport import finish, push, push_all
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id

from pdserve.transport.base import TransferFailed
from pdserve.transport.segment import Segment
from pdserve.transport.shm import ShmTransport
from pdserve.transport.tcp_receive import Listener
from pdwire import AbortCode, LayerFrame, Limits, Places

ROOT = Path(__file__).parents[2]
QUICK = Limits(idle_s=0.6, frame_s=0.5, abort_s=0.5)


@pytest.fixture
def sink() -> Iterator[Sink]:
    segment = Segment.create(2 << 20)
    sink = Sink(segment=segment)
    yield sink
    sink.views.clear()
    segment.close()


@pytest.fixture
def listener(sink: Sink) -> Iterator[Listener]:
    listener = ShmTransport(QUICK).listen("127.0.0.1", 0, DECODE, sink)
    assert isinstance(listener, Listener)
    yield listener
    listener.close()


@contextmanager
def prefill_process(address: str) -> Iterator[subprocess.Popen[bytes]]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "engine"), *filter(None, sys.path)])
    with subprocess.Popen(
        [sys.executable, "-m", "tests.contract.shm_prefill", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def wait_until_alone(listener: Listener) -> None:
    deadline = soon()
    while listener.connections:
        assert time.monotonic() < deadline, "a connection is still there"
        time.sleep(0.01)


def test_the_kv_lies_where_it_was_lent_without_another_copy(sink: Sink, listener: Listener) -> None:
    sender = ShmTransport(QUICK).connect(listener.address, PREFILL, deadline=soon())
    frame = layer_frame(request_id(1), 2, 8, 16)
    body = os.urandom(frame.body_bytes)
    sender.push(frame, [memoryview(body)], deadline=soon())
    sink.wait(lambda: sink.bodies)
    assert sink.segment is not None
    here = [sink.segment.view[at : at + size] for at, size in sink._places(frame.request).spans(frame)]
    assert b"".join(here) == body
    sender.close()


def test_a_byte_that_changes_in_memory_is_refused_by_name(sink: Sink, listener: Listener) -> None:
    def flip(frame: LayerFrame) -> None:
        assert sink.segment is not None
        at, _ = sink._places(frame.request).spans(frame)[0]
        sink.segment.view[at] ^= 0x10

    sink.placing = flip
    sender = ShmTransport(QUICK).connect(listener.address, PREFILL, deadline=soon())
    push(sender, layer_frame(request_id(1), 2, 32))
    with pytest.raises(TransferFailed, match="checksum") as failure:
        finish(sender, request_id(1))
    assert failure.value.code is AbortCode.CHECKSUM and "layer 2 tokens 32..47" in str(failure.value)
    sink.wait(lambda: sink.gone[request_id(1)])
    assert "checksum" in sink.gone[request_id(1)][0] and not sink.bodies
    sink.placing = lambda frame: None
    push_all(sender, request_id(2))
    finish(sender, request_id(2))
    sender.close()


def test_a_killed_prefill_gives_everything_back_and_leaves_nothing_behind(sink: Sink, listener: Listener) -> None:
    before = set(Path("/dev/shm").iterdir())
    ShmTransport(QUICK).connect(listener.address, PREFILL, deadline=soon()).close()
    wait_until_alone(listener)
    fds = psutil.Process().num_fds()
    with prefill_process(listener.address) as process:
        assert said(process) == "pushed"
        sink.wait(lambda: sink.bodies)
        process.kill()
        sink.wait(lambda: sink.gone[request_id(1)])
    assert not sink.lent
    assert set(Path("/dev/shm").iterdir()) == before
    wait_until_alone(listener)
    assert psutil.Process().num_fds() == fds


def test_the_memory_of_a_stopped_prefill_is_not_given_to_others_until_it_dies(
    sink: Sink, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    """Its connection is given up by deadline, but when it is continued it may go on writing."""
    with prefill_process(listener.address) as process:
        assert said(process) == "pushed"
        sink.wait(lambda: sink.bodies)
        process.send_signal(signal.SIGSTOP)
        deadline = soon()
        while "stay set aside" not in caplog.text:
            assert time.monotonic() < deadline, "nobody noticed"
            time.sleep(0.02)
        assert request_id(1) in sink.lent and not sink.gone
        process.kill()
        sink.wait(lambda: sink.gone[request_id(1)])
    assert not sink.lent


def test_closing_does_not_wait_for_a_stopped_prefill(sink: Sink, listener: Listener) -> None:
    with prefill_process(listener.address) as process:
        assert said(process) == "pushed"
        process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        listener.close()
        assert time.monotonic() - begun < 8
        assert len(sink.gone[request_id(1)]) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_process_is_refused(sink: Sink, listener: Listener, caplog: pytest.LogCaptureFixture) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setuid(65534)
        try:
            ShmTransport(QUICK).connect(listener.address, PREFILL, deadline=soon())
            os.write(writing, b"connected")
        except BaseException as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        assert "it belongs to user 0, this is user 65534" in answer.read()
    os.waitpid(child, 0)
    deadline = soon()
    while f"refused process {child} of user 65534" not in caplog.text:
        assert time.monotonic() < deadline, "decode must not rely on the stranger's own check"
        time.sleep(0.01)
    assert not sink.lent


@pytest.mark.parametrize("host", ["192.0.2.7", "10.0.0.1", "2001:db8::1"])
def test_an_address_of_another_host_is_refused_by_listener_and_sender(sink: Sink, host: str) -> None:
    with pytest.raises(ValueError, match="shared memory ends at this host"):
        ShmTransport().listen(host, 7101, DECODE, sink)
    where = f"[{host}]" if ":" in host else host
    with pytest.raises(TransferFailed, match="shared memory ends at this host"):
        ShmTransport().connect(f"shm://{where}:7101", PREFILL, deadline=soon())


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:7101", "shm://127.0.0.1", "shm:///tmp/x", "127.0.0.1:7101"])
def test_an_address_that_is_none_is_a_clear_failure(address: str) -> None:
    with pytest.raises(TransferFailed, match="not of the form shm://HOST:PORT"):
        ShmTransport().connect(address, PREFILL, deadline=soon())


def test_places_outside_what_is_lent_are_never_written_to(sink: Sink, listener: Listener) -> None:
    class Lying(Sink):
        def lend(self, request: bytes) -> Places:
            return replace(super().lend(request), layer_stride=1 << 30)

    lying = Lying(segment=sink.segment)
    with_lies = ShmTransport(QUICK).listen("127.0.0.1", 0, DECODE, lying)
    sender = ShmTransport(QUICK).connect(with_lies.address, PREFILL, deadline=soon())
    push(sender, layer_frame(request_id(1), 0))
    with pytest.raises(TransferFailed, match=r"would go to byte .* of 2097152 that decode lends"):
        push(sender, layer_frame(request_id(1), 1))
    sender.close()
    with_lies.close()


def test_memory_that_could_be_shrunk_is_not_mapped() -> None:
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(fd, 4096)
    with pytest.raises(ValueError, match="not sealed"):
        Segment.attach(fd)
    with pytest.raises(OSError):
        os.fstat(fd)


def test_a_segment_cannot_be_shrunk_or_grown_by_whoever_holds_it() -> None:
    segment = Segment.create(1 << 20)
    for size in (0, 1 << 21):
        with pytest.raises(PermissionError):
            os.truncate(segment.fd, size)
    segment.close()
