"""The entry: Ctrl-C is quiet from the first import on, and a stream that is closed is nobody's file."""

import os
import sys
from pathlib import Path


def main() -> None:
    try:
        _open_closed_streams()
        from pdctl.app import main as run

        run()
    except KeyboardInterrupt:
        # Not ExitCode: its import may be the one that was interrupted.
        sys.exit(130)


def _open_closed_streams() -> None:
    """Else the next file that is opened is what child processes take for their stderr, and lines meant for it go to stdout."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


if __name__ == "__main__":
    main()
