"""This host."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import IO

from pdctl.reach.outcome import LATE, MAX_OUTPUT_BYTES, Outcome, Reached, Unreached

_CHUNK = 1 << 16
# What was killed may leave its output open with a process of its own session, which has a watch-dog of its own.
_GRACE_S = 15.0


def run_local(node: str, script: str, deadline_s: float, *, heard: Callable[[str], None] | None = None) -> Outcome:
    """Feeds the script to `sh -s`. The script bounds its own commands; deadline_s is the last resort.

    heard: is told all that was printed so far, whenever there is more, from a thread.
    """
    received: list[bytes] = []
    # A session of its own: what the script has started must end with it, or its pipe would never close.
    child = subprocess.Popen(
        ["sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert child.stdin is not None and child.stdout is not None
    feeder = threading.Thread(target=_feed, args=(child.stdin, script.encode()), daemon=True)
    reader = threading.Thread(target=_read, args=(child.stdout, received, heard), daemon=True)
    feeder.start()
    reader.start()
    reader.join(deadline_s)
    late = reader.is_alive()
    if late:
        os.killpg(child.pid, signal.SIGKILL)
        reader.join(_GRACE_S)
    child.wait()
    if late:
        return Unreached(node, f"the collector did not end within {deadline_s:g} s", _text(received), LATE)
    if child.returncode:
        return Unreached(node, f"`sh` ended with status {child.returncode}", _text(received))
    return Reached(node, _text(received))


def _feed(script_of: IO[bytes], script: bytes) -> None:
    # One that ended before it had read all says by its status why.
    with contextlib.suppress(OSError), script_of:
        script_of.write(script)


def _read(output: IO[bytes], received: list[bytes], heard: Callable[[str], None] | None) -> None:
    with output:
        while data := os.read(output.fileno(), _CHUNK):
            received.append(data)
            if heard:
                heard(_text(received))


def _text(received: list[bytes]) -> str:
    return b"".join(received)[:MAX_OUTPUT_BYTES].decode("utf-8", "surrogateescape")
