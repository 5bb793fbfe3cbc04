"""The shared SSH connections of one run: a fresh folder for their sockets, and their end with the run.

A master that outlives its node makes the next run to the same address hang, so none is reused across runs.
"""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

_EXIT_DEADLINE_S = 5.0


@contextlib.contextmanager
def control_path_folder() -> Iterator[Path]:
    """A new private folder, short enough for a socket's name (104 bytes on macOS, 108 on Linux)."""
    folder = Path(tempfile.mkdtemp(prefix="pdctl-ssh-", dir=_short_temporary_folder()))
    try:
        yield folder
    finally:
        for socket in folder.iterdir():
            _close(socket)
        shutil.rmtree(folder, ignore_errors=True)


def _short_temporary_folder() -> str:
    usual = tempfile.gettempdir()
    return usual if len(usual) < 40 else "/tmp"


def _close(socket: Path) -> None:
    """The host name is a placeholder: the socket says which master is meant."""
    with contextlib.suppress(subprocess.TimeoutExpired, FileNotFoundError):
        subprocess.run(
            ["ssh", "-F", "none", "-o", f"ControlPath={socket}", "-O", "exit", "placeholder"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_EXIT_DEADLINE_S,
        )
