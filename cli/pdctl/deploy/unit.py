"""One process under supervision: its own session, one log, and a life that ends with this process at the latest."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pdctl.deploy import leash, logs
from pdctl.deploy.process import ProcessId, identify


class Unit:
    """Start, wait and stop; whether and when it is started again is the keeper's business.

    Must be started from the main thread: the kernel ties a child to the thread that forked it.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        self._command = list(command)
        self._environment = dict(environment)
        self._process: asyncio.subprocess.Process | None = None
        self._leash: int | None = None

    async def start(self) -> ProcessId:
        """Raises OSError when the command cannot be run."""
        descriptor = logs.open_to_append(self.log)
        try:
            if sys.platform == "linux":
                self._process = await self._spawn(self._command, descriptor, preexec_fn=leash.die_with_parent())
            else:
                reading, self._leash = os.pipe()
                try:
                    command = [sys.executable, "-m", "pdctl.deploy.leash", str(reading), *self._command]
                    self._process = await self._spawn(command, descriptor, pass_fds=(reading,))
                finally:
                    os.close(reading)
        finally:
            os.close(descriptor)
        return identify(self._process.pid) or ProcessId(pid=self._process.pid, born="ended at once")

    async def wait(self) -> int:
        """Exit status, negative for a signal, once the process has ended and its group is gone."""
        assert self._process is not None
        status = await self._process.wait()
        self._signal(signal.SIGKILL)
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None
        return status

    async def stop(self, grace_s: float) -> None:
        """SIGTERM to the whole group, SIGKILL after grace_s. Returns when the process has ended."""
        if self._process is None or self._process.returncode is not None:
            return
        self._signal(signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._process.wait()), grace_s)
        self._signal(signal.SIGKILL)
        await self._process.wait()

    async def _spawn(self, command: list[str], log: int, **options: object) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self._environment,
            start_new_session=True,
            **options,  # type: ignore[arg-type]
        )

    def _signal(self, signum: signal.Signals) -> None:
        assert self._process is not None
        # A session leader's group has its pid; the group outlives the leader while a grandchild is in it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signum)


def ended(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
