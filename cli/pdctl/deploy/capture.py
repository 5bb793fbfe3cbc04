"""A capture of what crosses a running pair, into a file of this user's alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pdctl.deploy.engines import Engines
from pdctl.errors import PdError, UsageError
from pdctl.exit_codes import ExitCode


@dataclass(frozen=True, slots=True)
class Captured:
    """interrupted: by the user; the file then ends where it was, without the last frame."""

    path: Path
    size: int
    interrupted: bool


def capture(name: str, path: Path, *, max_bytes: int, transfers: int, seconds: float) -> Captured:
    """Writes a new file of mode 0600. Raises PdError."""
    engines = Engines(name)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise UsageError(f"`{path}` exists already", hint="a capture never overwrites: name another file") from error
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error
    body = {"max_bytes": max_bytes, "max_transfers": transfers, "seconds": seconds}
    size, interrupted = 0, False
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in engines.stream("decode", "/v1/capture", body, within_s=seconds + 10.0):
                file.write(piece)
                file.flush()
                size += len(piece)
    except KeyboardInterrupt:
        interrupted = True
    except OSError as error:
        raise PdError(f"`{path}` cannot be written: {error.strerror}", code=ExitCode.PARTLY) from error
    except PdError:
        if not size:
            path.unlink(missing_ok=True)
        raise
    return Captured(path, size, interrupted)
