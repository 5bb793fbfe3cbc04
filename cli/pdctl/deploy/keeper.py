"""Keeps one unit running: readiness, watchdog, restart with backoff, and a limit after which it gives up.

launch() → become_ready() → keep(): until broken → backing off → launch() → become_ready() → ...
                              ↑ ↓                → too often: failed, for a person to look at
                          not answering
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from pdctl.deploy.restart import RestartPolicy
from pdctl.deploy.state import UnitState, UnitStatus
from pdctl.deploy.unit import Unit, ended

Probe = Callable[[], Awaitable[str | None]]
"""Asks the unit how it is: None for ready, otherwise why not. Returns within a few seconds, never raises."""

_POLL_S = 0.15


class UnitBroken(Exception):
    """The unit ended, or did not become ready in time. The text says which."""


class NotReadyInTime(UnitBroken):
    """It may have been on its way."""


class Keeper:
    """status is changed in place; on_change is called after each change, on_ready when the unit has become ready.

    A ready unit is asked every ask_every_s; one that has not answered well for answer_within_s is ended.
    """

    def __init__(
        self,
        unit: Unit,
        probe: Probe,
        policy: RestartPolicy,
        *,
        ready_within_s: float,
        ask_every_s: float,
        answer_within_s: float,
        on_change: Callable[[], None],
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.unit = unit
        self.status = UnitStatus()
        self._probe = probe
        self._policy = policy
        self._ready_within_s = ready_within_s
        self._ask_every_s = ask_every_s
        self._answer_within_s = answer_within_s
        self._on_change = on_change
        self._on_ready = on_ready
        self._ended: asyncio.Task[int] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the process that was launched last has ended."""
        return self._ended is not None and self._ended.done()

    async def launch(self) -> None:
        """Raises UnitBroken when the command cannot be run at all."""
        try:
            process = await self.unit.start()
        except OSError as error:
            raise UnitBroken(f"could not be started: {error}") from error
        self._ended = asyncio.create_task(self.unit.wait())
        self.status.process = process
        self.status.since = time.time()
        self._enter("starting")

    async def become_ready(self, within_s: float) -> None:
        """Raises UnitBroken when the unit ends, NotReadyInTime when it is not ready within_s seconds from now."""
        assert self._ended is not None
        deadline = time.monotonic() + within_s
        while True:
            reason = await self._probe()
            if self._ended.done():
                raise UnitBroken(ended(self._ended.result()))
            if reason is None:
                break
            if time.monotonic() > deadline:
                await self.unit.stop(grace_s=1.0)
                raise NotReadyInTime(f"was not ready after {within_s:.0f} s: {reason}")
            await asyncio.wait([self._ended], timeout=_POLL_S)
        self._let_in()

    async def keep(self) -> None:
        """Runs until the policy gives up; cancelled to stop."""
        while True:
            reason = await self._broken()
            while True:
                self.status.process = None
                self.status.exits = [*self.status.exits[-20:], time.time()]
                delay = self._policy.delay(self.status.exits, time.time())
                if delay is None:
                    limit, window = self._policy.limit, self._policy.window_s
                    self._enter("failed", f"{reason}; gave up after {limit} restarts within {window:.0f} s")
                    return
                self._enter("backing-off", f"{reason}; next start in {delay:.1f} s")
                await asyncio.sleep(delay)
                self.status.restarts += 1
                try:
                    await self.launch()
                    await self.become_ready(self._ready_within_s)
                    break
                except UnitBroken as broken:
                    reason = str(broken)

    async def stop(self, grace_s: float) -> None:
        await self.unit.stop(grace_s)
        if self._ended is not None:
            await self._ended
        self.status.process = None
        if self.status.state != "failed":
            self._enter("stopped")

    async def _broken(self) -> str:
        """Waits until the ready unit ends or does not answer for too long; says what happened."""
        assert self._ended is not None
        answered = time.monotonic()
        while True:
            await asyncio.wait([self._ended], timeout=self._ask_every_s)
            if self._ended.done():
                return ended(self._ended.result())
            reason = await self._probe()
            if self._ended.done():
                return ended(self._ended.result())
            if reason is None:
                answered = time.monotonic()
                if self.status.state == "not-answering":
                    self._let_in()
            elif time.monotonic() - answered > self._answer_within_s:
                await self.unit.stop(grace_s=1.0)
                return f"was not well for {self._answer_within_s:.0f} s ({reason}) and was ended"
            else:
                patience = f"is ended and started again after {self._answer_within_s:.0f} s of this"
                self._enter("not-answering", f"not answering ({reason}); {patience}")

    def _let_in(self) -> None:
        self._on_ready()
        self._enter("ready")

    def _enter(self, state: UnitState, reason: str | None = None) -> None:
        self.status.state = state
        self.status.reason = reason
        with suppress(OSError):
            self._on_change()
