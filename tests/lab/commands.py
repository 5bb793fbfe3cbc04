"""Runs a command of the lab itself; a failure carries what the command printed."""

import subprocess


def run(*command: str, timeout_s: float = 60.0) -> str:
    """stdout of `command`. Raises RuntimeError with both streams when it fails, TimeoutExpired when it hangs."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout
