"""No unit outlives its supervisor, not even one that was killed with SIGKILL.

Linux: the kernel kills the child when its parent dies (PR_SET_PDEATHSIG). Elsewhere the child runs under
`python -m pdctl.deploy.leash FD COMMAND...`, which holds the reading end of a pipe that only the supervisor can
write to: end of file means that the supervisor is gone.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent() -> Callable[[], None]:
    """What a child runs between fork and exec on Linux. Everything that needs memory or locks happens before."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return in_child


def hold(descriptor: int, command: Sequence[str]) -> int:
    """Runs the command and returns its exit status; kills both when `descriptor` reaches end of file.

    The two share a process group, so that a signal to the group reaches the command by itself.
    """
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda number, frame: None)
    child = subprocess.Popen(command)
    while (status := child.poll()) is None:
        readable, _, _ = select.select([descriptor], [], [], 0.2)
        if readable and not os.read(descriptor, 1):
            os.killpg(0, signal.SIGKILL)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(hold(int(sys.argv[1]), sys.argv[2:]))
