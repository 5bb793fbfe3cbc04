import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pdctl.errors import UsageError

PDCTL = [sys.executable, "-m", "pdctl"]


def _run(*words: str, **more: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*PDCTL, *words], stderr=subprocess.PIPE, text=True, timeout=60, **more)  # type: ignore[call-overload, no-any-return]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_under_stdout_is_a_clear_error() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = _run("checks", "list", stdout=full)
    assert done.returncode == 5
    assert "No space left on device" in done.stderr and "hint:" in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.parametrize("words", [("checks", "list"), ("--help",)])
def test_a_reader_that_has_enough_is_no_failure(words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = _run(*words, stdout=write)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(find_spec("torch") is None, reason="without the engine extra `up` asks for that first")
def test_a_state_directory_that_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = _run("up", stdout=subprocess.PIPE, env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "file")})
    assert done.returncode == 2
    assert "Not a directory" in done.stderr and "XDG_STATE_HOME" in done.stderr and "Traceback" not in done.stderr


def test_an_interrupt_during_the_imports_is_quiet() -> None:
    # The import of typer is where the user's Ctrl-C lands.
    code = (
        "import os, signal, sys\n"
        "class Here:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Here())\n"
        "from pdctl.__main__ import main\nmain()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (130, "")


def test_evidence_from_a_closed_stdin_or_from_nothing_is_a_usage_error() -> None:
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *PDCTL, "doctor", "--from", "-"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert closed.returncode == 2 and "stdin" in closed.stderr and "Traceback" not in closed.stderr
    assert _run("doctor", "--from", "", stdout=subprocess.PIPE).returncode == 2


def test_what_a_stranger_wrote_into_an_error_moves_no_cursor() -> None:
    error = UsageError("no `a\x1b[2Jb`", detail="é\tx\ny\x9bz", hint="\u202e")
    assert error.render() == "error: no `a\ufffd[2Jb`\n  é\tx\n  y\ufffdz\nhint: \ufffd"


def test_a_closed_stderr_is_no_failure_and_its_lines_do_not_go_to_stdout(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text("[prefill]\nn1 ansible_port=0\n", encoding="utf-8")
    argv = ["sh", "-c", 'exec "$@" 2>&-', "sh", *PDCTL]
    listed = subprocess.run([*argv, "checks", "list"], stdout=subprocess.PIPE, text=True, timeout=60)
    refused = subprocess.run(
        [*argv, "provision", str(tmp_path / "hosts.ini")], stdout=subprocess.PIPE, text=True, timeout=60
    )
    assert (listed.returncode, refused.returncode, refused.stdout) == (0, 2, "")
    assert "PD-" in listed.stdout
