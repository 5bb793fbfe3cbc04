"""What the supervisor tells the world: status.json as a whole at every change, and one log line for what mattered."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from pdctl.deploy.control import CallFailed
from pdctl.deploy.keeper import Keeper
from pdctl.deploy.process import identify
from pdctl.deploy.state import CanaryStatus, Phase, Role, StageStatus, StateDir, Status
from pdserve.logs import log


class StageFailed(Exception):
    """The deployment does not come up; the text says why."""


class OutOfTime(StageFailed):
    """Nothing is known to be wrong but that it took longer than `timeout_s`."""


class Board:
    """The only writer of status.json."""

    def __init__(self, state: StateDir, timeout_s: float) -> None:
        self.status = Status(since=time.time(), supervisor=identify(os.getpid()))
        self.keepers: Mapping[Role, Keeper] = {}
        self._state = state
        self._deadline = time.monotonic() + timeout_s
        self._told: dict[Role, tuple[str, str | None]] = {}

    @property
    def left_s(self) -> float:
        """What is left of the time to become ready in."""
        return max(self._deadline - time.monotonic(), 0.1)

    def enter(self, phase: Phase, reason: str | None = None) -> None:
        if (phase, reason) != (self.status.phase, self.status.reason):
            log("phase", phase=phase, reason=reason)
        if phase != self.status.phase:
            self.status.since = time.time()
        self.status.phase, self.status.reason = phase, reason
        self.write()

    def canary(self, last: CanaryStatus) -> None:
        log("canary", **last.model_dump(exclude={"at"}))
        self.status.canary = last
        self.write()

    def write(self) -> None:
        self.status.units = {role: keeper.status for role, keeper in self.keepers.items()}
        for role, unit in self.status.units.items():
            if self._told.get(role) != (unit.state, unit.reason):
                self._told[role] = (unit.state, unit.reason)
                log("unit", role=role, state=unit.state, reason=unit.reason, pid=unit.process and unit.process.pid)
        # A full disk must not end a deployment that serves; the next change tries again.
        with suppress(OSError):
            self._state.write_status(self.status)

    @asynccontextmanager
    async def stage(self, name: str, waits_for: str) -> AsyncIterator[StageStatus]:
        """One step of the start, bounded by what is left of the time. Raises StageFailed for whatever fails inside."""
        stage = StageStatus(name=name, waits_for=waits_for, limit_s=round(self.left_s, 1), started=time.time())
        began = time.monotonic()
        self.status.stages.append(stage)
        self.write()
        try:
            async with asyncio.timeout(self.left_s):
                yield stage
        except TimeoutError:
            stage.failed = f"not done after {stage.limit_s:.1f} s"
            raise OutOfTime(f"{name}: waited {stage.limit_s:.1f} s for {waits_for}") from None
        except OutOfTime as error:
            stage.failed = str(error)
            raise OutOfTime(f"{name}: {error}") from error
        except (StageFailed, CallFailed) as error:
            stage.failed = str(error)
            raise StageFailed(f"{name}: {error}") from error
        except asyncio.CancelledError:
            stage.failed = "given up, because something else failed or the start was interrupted"
            raise
        finally:
            stage.seconds = round(time.monotonic() - began, 2)
            self.write()
