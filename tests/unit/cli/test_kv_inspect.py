"""`pdctl kv inspect` on files that somebody else wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.kv_examples import PREFILL, layer_frame, request_id
from typer.testing import CliRunner, Result

from pdctl.app import app
from pdctl.errors import PdError, UsageError
from pdwire import Bye, Frame, Hello, LayerFrame, Offer, Role, seal

HELLO = Hello(role=Role.PREFILL, record=PREFILL, offer=Offer())


def inspect(file: Path, *more: str) -> Result:
    result = CliRunner().invoke(app, ["kv", "inspect", str(file), *more])
    if isinstance(result.exception, PdError):
        raise result.exception
    return result


def write(file: Path, *frames: Frame) -> Path:
    def buffers(frame: Frame) -> list[bytes]:
        body = [memoryview(bytes(frame.body_bytes))] if isinstance(frame, LayerFrame) else ()
        return [bytes(buffer) for buffer in seal(frame, body).buffers]

    file.write_bytes(b"".join(buffer for frame in frames for buffer in buffers(frame)))
    return file


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "nothing"])
def test_what_is_no_file_is_a_usage_error_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "directory":
            path.mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        inspect(path)


def test_a_request_without_an_end_is_a_fault(tmp_path: Path) -> None:
    result = inspect(write(tmp_path / "x", HELLO, layer_frame(request_id(1)), Bye()), "-q")
    assert result.exit_code == 1
    assert f"FAULT request {request_id(1).hex()} has no end" in result.stdout


def test_of_many_faults_of_one_request_some_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    frames = [layer_frame(request_id(1), first_token=at, count=1) for at in range(80)]
    file = write(tmp_path / "x", *frames)
    result = inspect(file, "-q")
    assert result.exit_code == 1
    assert result.stdout.count("FAULT it comes before any HELLO") == 50
    assert "30 faults are not shown" in result.stdout
    *_, last = inspect(file, "-q", "-o", "json").stdout.splitlines()
    assert json.loads(last)["not_shown"] == 30
