"""`pdctl kv echo`: two processes pass KV, and whatever is wrong with one of them is one line and an exit code."""

import re
import subprocess
import sys

import pytest

DEADLINE_S = 120
SECRET = "ab" * 32
PDCTL = (sys.executable, "-m", "pdctl", "kv", "echo")


def _run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run((*PDCTL, *arguments), input=stdin, capture_output=True, text=True, timeout=DEADLINE_S)


def _listening(*arguments: str, stdin: str) -> tuple["subprocess.Popen[str]", str]:
    command = (*PDCTL, "--listen", "127.0.0.1", "--seconds", "60", *arguments)
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(stdin)
    process.stdin.flush()
    return process, process.stderr.readline().removeprefix("listening at ").strip()


def test_what_is_sent_is_received_and_verified() -> None:
    process, address = _listening("--secret-stdin", stdin=SECRET + "\n")
    sent = _run("--to", address, "--bytes", "1", "--secret-stdin", stdin=SECRET + "\n")
    received, _ = process.communicate(timeout=DEADLINE_S)
    assert (sent.returncode, process.returncode) == (0, 0), sent.stdout + received
    assert re.fullmatch(r"kv echo: sent 2097152 bytes in 8 frames to \S+, verified there, in [\d.]+ s\n", sent.stdout)
    assert received == "kv echo: received 2097152 bytes in 8 frames, every checksum right\n"


def test_who_does_not_hold_the_secret_sends_nothing() -> None:
    process, address = _listening("--secret-stdin", stdin=SECRET + "\n")
    try:
        refused = _run("--to", address, "--secret-stdin", stdin="cd" * 32 + "\n")
    finally:
        process.kill()
        process.communicate()
    assert refused.returncode == 1
    assert refused.stdout.startswith("kv echo: failed: ")


def test_a_listener_that_nobody_meets_ends_in_time() -> None:
    alone = _run("--listen", "127.0.0.1", "--seconds", "1")
    assert (alone.returncode, alone.stdout) == (1, "kv echo: failed: no whole transfer came within 1 s\n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        ((), "", "one end listens and the other sends"),
        (("--listen", "127.0.0.1", "--to", "tcp://127.0.0.1:1"), "", "one end listens and the other sends"),
        (("--listen", "192.0.2.1"), "", "without a secret an echo listens on loopback only"),
        (("--listen", "0.0.0.0", "--secret-stdin"), SECRET + "\n", "means every interface"),
        (("--listen", "node-7"), "", "is no IP address"),
        (("--listen", "127.0.0.1", "--secret-stdin"), "ab\n", "64 hexadecimal digits"),
    ],
)
def test_a_wrong_call_is_a_clear_usage_error(arguments: tuple[str, ...], stdin: str, said: str) -> None:
    refused = _run(*arguments, stdin=stdin)
    assert refused.returncode == 2
    assert said in refused.stderr
