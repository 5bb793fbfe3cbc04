"""This host."""

import subprocess

from pdctl.reach.outcome import MAX_OUTPUT_BYTES, Outcome, Reached, Unreached


def run_local(node: str, script: str, deadline_s: float) -> Outcome:
    """Feeds the script to `sh -s`. The script bounds its own commands; deadline_s is the last resort."""
    argv = ["sh", "-s"]
    given = script.encode()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        try:
            output, _ = child.communicate(given, timeout=deadline_s)
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
            return Unreached(node, f"the collector did not end within {deadline_s:g} s", _text(output))
    if child.returncode:
        return Unreached(node, f"`sh` ended with status {child.returncode}", _text(output))
    return Reached(node, _text(output))


def _text(output: bytes) -> str:
    return output[:MAX_OUTPUT_BYTES].decode("utf-8", "surrogateescape")
