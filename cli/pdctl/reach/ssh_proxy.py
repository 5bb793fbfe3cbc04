"""A connection that a command makes: ssh_config(5), ProxyCommand."""

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_WORDS = 4096


class ProxyFailed(Exception):
    """The text is the last line that the command said."""


@contextmanager
def proxied(command: str, timeout_s: float) -> Iterator[socket.socket]:
    """A socket to the command's standard input and output. The command, and what it started, ends with the block.

    An exception of the block becomes ProxyFailed where the command said why.
    """
    ours, its = socket.socketpair()
    ours.settimeout(timeout_s)
    with ours, tempfile.TemporaryFile() as said:
        with its:
            # A session of its own: ssh in it finds no terminal to ask on, and ends with all that it started.
            process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                stdin=its.fileno(),
                stdout=its.fileno(),
                stderr=said,
                start_new_session=True,
                env=os.environ | {"SSH_ASKPASS_REQUIRE": "never"},
            )
        try:
            yield ours
        except Exception as error:
            said.seek(0)
            lines = said.read(_MOST_WORDS).decode("utf-8", "replace").strip().splitlines()
            if lines:
                raise ProxyFailed(lines[-1].strip()) from error
            raise
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
