"""What holds of the file transport beyond, or instead of, the contract suite."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.kv_sink import Sink, require_all_tokens, soon
from tests.contract.test_kv_transport import body_of, finish, push, push_all
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id

from pdserve.transport.base import KvListener, KvRefused, TransferFailed
from pdserve.transport.file import DECODE_HELLO, FileTransport, waiting
from pdwire import MAX_CONTROL_BYTES, AbortCode, Connection, DType, IncompatiblePeer, LayerFrame, Limits, Role, seal


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def sink() -> Sink:
    sink = Sink()
    sink.finishing = require_all_tokens(sink)
    return sink


@pytest.fixture
def listener(spool: Path, sink: Sink) -> Iterator[KvListener]:
    listener = FileTransport(spool).listen("", 0, DECODE, sink)
    yield listener
    listener.close()


def write(spool: Path, *requests: int, tokens: int = 40) -> None:
    spool.mkdir(exist_ok=True)
    sender = FileTransport(spool).connect(f"file://{spool}", PREFILL, deadline=soon())
    for number in requests:
        push_all(sender, request_id(number), tokens)
        finish(sender, request_id(number), tokens)
    sender.close()


def listen(spool: Path, sink: Sink) -> KvListener:
    return FileTransport(spool).listen("", 0, DECODE, sink)


def test_what_was_written_while_no_decode_ran_is_taken_when_one_starts_in_order(spool: Path, sink: Sink) -> None:
    write(spool, 1, 2, 3)
    assert [path.name for path in waiting(spool)] == [f"{request_id(number).hex()}.kv" for number in (1, 2, 3)]
    listener = listen(spool, sink)
    sink.wait(lambda: len(sink.done) == 3)
    listener.close()
    assert list(sink.done) == [request_id(number) for number in (1, 2, 3)]
    for (request, layer, first), body in sink.bodies.items():
        assert body == body_of(layer_frame(request, layer, first, len(body) // 1024))
    assert not waiting(spool), "what was taken is gone"


def test_nothing_is_seen_of_a_request_before_it_is_finished(spool: Path, sink: Sink, listener: KvListener) -> None:
    sender = FileTransport(spool).connect(listener.address, PREFILL, deadline=soon())
    push_all(sender, request_id(1))
    push_all(sender, request_id(2))
    assert not waiting(spool)
    sender.abort(request_id(1), "client went away")
    with pytest.raises(TransferFailed, match="client went away"):
        push(sender, layer_frame(request_id(1)))
    sender.close()
    sender.close()
    with pytest.raises(TransferFailed, match="closed by this side"):
        finish(sender, request_id(3))
    assert not sender.alive
    assert sorted(path.name for path in spool.iterdir()) == ["decode.hello"], "neither file nor draft is left"
    assert not sink.gone and not sink.done


def test_a_finished_file_is_on_the_disk_and_only_its_owner_reads_it(spool: Path) -> None:
    write(spool, 1)
    (path,) = waiting(spool)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_blocks * 512 < path.stat().st_size + (64 << 10), (
        "what was set aside and not used is given back"
    )


@pytest.mark.parametrize("where", [100, 2000, 30_000, -80])
def test_an_altered_byte_refuses_the_file_and_keeps_it_for_whoever_asks_why(
    spool: Path, sink: Sink, caplog: pytest.LogCaptureFixture, where: int
) -> None:
    write(spool, 1, 2)
    path, _ = waiting(spool)
    data = bytearray(path.read_bytes())
    data[where] ^= 0x10
    stamp = path.stat().st_mtime_ns
    path.write_bytes(data)
    os.utime(path, ns=(stamp, stamp))
    listener = listen(spool, sink)
    sink.wait(lambda: request_id(2) in sink.done)
    listener.close()
    assert request_id(1) not in sink.done
    assert [path.name for path in spool.glob("*.refused")] == [f"{request_id(1).hex()}.kv.refused"]
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    assert len(sink.gone[request_id(1)]) == (1 if where != 100 else 0)


@pytest.mark.parametrize("size", [0, 63, 500, 5000, -1])
def test_a_file_that_ends_early_is_refused(spool: Path, sink: Sink, size: int) -> None:
    write(spool, 1, 2)
    path, _ = waiting(spool)
    stamp = path.stat().st_mtime_ns
    os.truncate(path, path.stat().st_size - 1 if size < 0 else size)
    os.utime(path, ns=(stamp, stamp))
    listener = listen(spool, sink)
    sink.wait(lambda: request_id(2) in sink.done)
    listener.close()
    assert len(list(spool.glob("*.refused"))) == 1
    assert request_id(1) not in sink.done or size < 0, "all but BYE was there"


def test_what_is_no_kv_at_all_is_refused_by_name(spool: Path, sink: Sink, caplog: pytest.LogCaptureFixture) -> None:
    spool.mkdir()
    (spool / "a.kv").write_bytes(b"GET / HTTP/1.1\r\n" * 40)
    os.mkfifo(spool / "b.kv")
    (spool / "c.kv").symlink_to("/etc/passwd")
    (spool / "d.kv").mkdir()
    write(spool, 1)
    listener = listen(spool, sink)
    sink.wait(lambda: sink.done)
    listener.close()
    assert "illegal magic" in caplog.text and "not a regular file" in caplog.text
    assert sorted(path.name for path in spool.glob("*.refused")) == [f"{name}.kv.refused" for name in "abcd"]


def test_a_request_that_the_sink_does_not_want_is_refused_and_the_next_taken(spool: Path, sink: Sink) -> None:
    def refuse(frame: LayerFrame) -> None:
        if frame.request == request_id(1):
            raise KvRefused("no such ticket")

    sink.placing = refuse
    write(spool, 1, 2)
    listener = listen(spool, sink)
    sink.wait(lambda: request_id(2) in sink.done)
    listener.close()
    assert not sink.gone, "a request that was never placed needs no abort"
    assert len(list(spool.glob("*.refused"))) == 1


def test_a_file_without_all_its_kv_is_refused_with_what_is_missing(
    spool: Path, sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    spool.mkdir()
    sender = FileTransport(spool).connect(f"file://{spool}", PREFILL, deadline=soon())
    push_all(sender, request_id(1), 32)
    finish(sender, request_id(1), 40)
    listener = listen(spool, sink)
    sink.wait(lambda: sink.gone)
    listener.close()
    assert "layer 0 lacks tokens 32..39" in sink.gone[request_id(1)][0]
    assert "layer 0 lacks tokens 32..39" in caplog.text


def test_a_prefill_that_does_not_fit_is_told_so_where_decode_has_been_seen(spool: Path, listener: KvListener) -> None:
    prefill = replace(PREFILL, dtype=DType.BFLOAT16)
    with pytest.raises(IncompatiblePeer, match="dtype: prefill bfloat16, decode float32"):
        FileTransport(spool).connect(listener.address, prefill, deadline=soon())


def test_a_prefill_that_does_not_fit_is_refused_at_replay_where_it_had_not(
    spool: Path, sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    write(spool, 1)
    listener = FileTransport(spool).listen("", 0, replace(DECODE, dtype=DType.BFLOAT16), sink)
    deadline = soon()
    while not list(spool.glob("*.refused")) and soon(0) < deadline:
        pass
    listener.close()
    assert "dtype: prefill float32, decode bfloat16" in caplog.text


def test_one_decode_has_a_spool_at_a_time(spool: Path, listener: KvListener) -> None:
    with pytest.raises(OSError):
        FileTransport(spool).listen("", 0, DECODE, Sink())
    listener.close()
    FileTransport(spool).listen("", 0, DECODE, Sink()).close()


def test_a_request_that_would_be_too_large_for_the_disk_allowed_fails_and_leaves_nothing(spool: Path) -> None:
    spool.mkdir()
    sender = FileTransport(spool, max_file_bytes=1 << 20).connect(f"file://{spool}", PREFILL, deadline=soon())
    with pytest.raises(TransferFailed, match="more than 1048576 bytes"):
        push_all(sender, request_id(1), 4000)
    push_all(sender, request_id(2), 16)
    finish(sender, request_id(2), 16)
    assert [path.name for path in spool.iterdir()] == [f"{request_id(2).hex()}.kv"]


def test_many_requests_are_forgotten_by_the_connection_however_they_end(spool: Path) -> None:
    spool.mkdir()
    transport = FileTransport(spool, Limits(max_requests=4))
    sender = transport.connect(f"file://{spool}", PREFILL, deadline=soon())
    for number in range(1, 13):
        push(sender, layer_frame(request_id(number)))
        if number % 2:
            sender.abort(request_id(number), "not wanted")
        else:
            finish(sender, request_id(number), 16)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("tcp://127.0.0.1:7101", "not of the form file:///DIRECTORY"),
        ("file://host/spool", "not of the form file:///DIRECTORY"),
        ("file:///no/such/directory", "No such file or directory"),
    ],
)
def test_an_address_that_is_none_is_a_clear_failure(tmp_path: Path, address: str, why: str) -> None:
    with pytest.raises(TransferFailed, match=why) as failure:
        FileTransport(tmp_path).connect(address, PREFILL, deadline=soon())
    assert failure.value.code in (AbortCode.PROTOCOL, AbortCode.INTERNAL)


CRASHING = """
import os, sys
from tests.contract.test_kv_transport import push_all
from tests.kv_examples import PREFILL, request_id
from tests.contract.kv_sink import soon
from pathlib import Path
from pdserve.transport.file import FileTransport
spool = Path(sys.argv[1])
sender = FileTransport(spool).connect(f"file://{spool}", PREFILL, deadline=soon())
push_all(sender, request_id(1))
print("written", flush=True)
sys.stdin.read()
"""


def test_a_prefill_killed_in_the_middle_leaves_nothing_that_is_taken_and_a_draft_that_is_swept(
    spool: Path, sink: Sink
) -> None:
    spool.mkdir()
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", CRASHING, str(spool)]
    path = os.pathsep.join([str(root), str(root / "engine")])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    ) as prefill:
        assert prefill.stdout is not None
        assert prefill.stdout.readline() == b"written\n"
        assert len(list(spool.glob(".*.draft"))) == 1
        prefill.send_signal(signal.SIGKILL)
    assert not waiting(spool)
    listen(spool, sink).close()
    assert [path.name for path in spool.iterdir()] == ["decode.hello"]


def refused_by_name(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [text for record in caplog.records if name in (text := record.getMessage())]


@pytest.mark.parametrize("stuck", ["a directory stands where it would go", "its name is too long for another ending"])
def test_a_file_that_cannot_be_set_aside_is_left_with_one_log_line_and_the_next_is_taken(
    spool: Path, sink: Sink, listener: KvListener, stuck: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = spool / (f"{'n' * 250}.kv" if "long" in stuck else "n.kv")
    if "directory" in stuck:
        bad.with_name("n.kv.refused").mkdir()
    bad.write_bytes(b"junk")
    for number in (1, 2):
        write(spool, number)
        sink.wait(lambda number=number: request_id(number) in sink.done)  # type: ignore[misc]
    assert bad.exists()
    lines = refused_by_name(caplog, "n.kv")
    assert len([line for line in lines if "left where it is" in line]) == 1 and len(lines) == 2
    bad.write_bytes(b"other junk")
    deadline = soon()
    while len(refused_by_name(caplog, "left where it is")) < 2:
        assert time.monotonic() < deadline, "it has changed, and was not looked at again"
        time.sleep(0.02)


def test_a_file_that_cannot_be_removed_is_taken_once(
    spool: Path, sink: Sink, listener: KvListener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a directory to which nothing but files may be added."""
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.name == f"{request_id(1).hex()}.kv":
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    write(spool, 1)
    sink.wait(lambda: request_id(1) in sink.done)
    for number in (2, 3):
        write(spool, number)
        sink.wait(lambda number=number: request_id(number) in sink.done)  # type: ignore[misc]
    assert set(sink.landings.values()) == {1}
    assert len(refused_by_name(caplog, "Operation not permitted")) == 1


def test_a_name_that_is_no_text_is_refused_like_any_other(
    spool: Path, sink: Sink, listener: KvListener, caplog: pytest.LogCaptureFixture
) -> None:
    (spool / os.fsdecode(b"\xff\xfe.kv")).write_bytes(b"junk")
    write(spool, 1)
    sink.wait(lambda: request_id(1) in sink.done)
    assert len(refused_by_name(caplog, "udcff")) == 1


@pytest.mark.parametrize("kind", ["link", "pipe", "large", "device", "half", "directory"])
def test_what_stands_where_decode_leaves_its_hello_is_not_trusted(spool: Path, kind: str) -> None:
    spool.mkdir()
    hello = spool / DECODE_HELLO
    match kind:
        case "link":
            (spool / "elsewhere").write_bytes(b"")
            hello.symlink_to(spool / "elsewhere")
        case "pipe":
            os.mkfifo(hello)
        case "large":
            hello.write_bytes(bytes(MAX_CONTROL_BYTES + 1))
        case "device":
            hello.symlink_to("/dev/zero")
        case "half":
            decode = Connection(Role.DECODE, DECODE)
            hello.write_bytes(b"".join(seal(decode.hello).buffers)[:-1])
        case _:
            hello.mkdir()
    began = time.monotonic()
    with pytest.raises(TransferFailed, match=r"decode\.hello|symbolic link"):
        FileTransport(spool).connect(f"file://{spool}", PREFILL, deadline=soon())
    assert time.monotonic() - began < 5
