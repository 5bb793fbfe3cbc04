"""What the operating system refuses: a closed pipe, a full disk, a state directory that cannot be written."""

import errno
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pdctl.errors import PdError
from pdctl.exit_codes import ExitCode

_BAD_PATH = {
    errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP,
}  # fmt: skip


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Ends with status 0 when stdout's reader (head, less) has what it wanted; other closed pipes stay errors.

    Typer itself would call that a failure (1), which means findings here.
    """
    try:
        yield
    except BrokenPipeError:
        if not _reader_left():
            raise
        silence_stdout()
        sys.exit(ExitCode.DONE)


def silence_stdout() -> None:
    """What is still buffered goes nowhere, so that the interpreter does not fail on it once more at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def unusable(error: OSError) -> PdError:
    """An error of the operating system that no command expected, as the user should read it."""
    from pdctl.paths import state_dir

    reason = f"{error.strerror or error or type(error).__name__}"
    path = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else None
    what = f"cannot use `{path}`: {reason}" if path else f"the system refused: {reason}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = "" if path else "what stdout or the state directory is on is full"
        return PdError(what, detail=where or None, hint="make room there, then try again")
    state = str(state_dir())
    if path and error.errno in _BAD_PATH and (path.startswith(state) or state.startswith(path)):
        return PdError(
            what,
            detail=f"pdctl keeps what it knows about runs and deployments in {state}",
            hint="let this user write there, or name another directory with XDG_STATE_HOME",
            code=ExitCode.USAGE,
        )
    return PdError(what, hint="look at that file or device, then try again")


def _reader_left() -> bool:
    poll = select.poll()
    poll.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0))
