"""This host."""

import os
import signal
import subprocess

from pdctl.reach.outcome import LATE, MAX_OUTPUT_BYTES, Outcome, Reached, Unreached


def run_local(node: str, script: str, deadline_s: float) -> Outcome:
    """Feeds the script to `sh -s`. The script bounds its own commands; deadline_s is the last resort."""
    argv = ["sh", "-s"]
    given = script.encode()
    # A session of its own: what the script has started must end with it, or its pipe would never close.
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as child:
        try:
            output, _ = child.communicate(given, timeout=deadline_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            output, _ = child.communicate()
            return Unreached(node, f"the collector did not end within {deadline_s:g} s", _text(output), LATE)
    if child.returncode:
        return Unreached(node, f"`sh` ended with status {child.returncode}", _text(output))
    return Reached(node, _text(output))


def _text(output: bytes) -> str:
    return output[:MAX_OUTPUT_BYTES].decode("utf-8", "surrogateescape")
