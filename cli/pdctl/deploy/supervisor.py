"""The supervisor of one deployment on this host: `python -m pdctl.deploy.supervisor STATE_DIR`.

    start-up   reference → processes → prefill, decode and router ready → canary → open     any failure: stop all, end
    running    a keeper for each unit; a canary after every restart, and only then is a reborn router opened
    SIGTERM    stop router, then prefill, then decode; end

It alone writes status.json. It holds supervisor.lock while it lives; the units die with it, however it ends.
The interface that `pdctl` sees is `pdctl.deploy.local`; a service manager can stand behind the same one.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from pdctl.deploy import canary, logs, reference, units
from pdctl.deploy.control import CallFailed, Control
from pdctl.deploy.keeper import Keeper, UnitBroken
from pdctl.deploy.process import identify
from pdctl.deploy.state import ROLES, CanaryStatus, Phase, Record, Role, StageStatus, StateDir, Status
from pdctl.deploy.unit import Unit
from pdserve import filelock

_ANSWER_WITHIN_S = 60.0
_CANARY_WITHIN_S = 60.0
_CANARY_TRIES = 3


class StageFailed(Exception):
    """The deployment does not come up; the text says why."""


class Supervisor:
    def __init__(self, state: StateDir, record: Record, control: Control) -> None:
        self._state = state
        self._record = record
        self._control = control
        self._stop = asyncio.Event()
        self._recheck = asyncio.Event()
        self._known: reference.Known | None = None
        self._deadline = time.monotonic() + record.timeout_s
        self._keepers = {role: self._keeper(role) for role in ROLES}
        self.status = Status(since=time.time(), supervisor=identify(os.getpid()))

    def request_stop(self) -> None:
        self._stop.set()

    async def run(self) -> int:
        """Exit status: 0 when asked to stop, 1 when the deployment did not come up."""
        work = asyncio.create_task(self._live())
        rotation = asyncio.create_task(self._bound_logs())
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait([work, stop], return_when=asyncio.FIRST_COMPLETED)
        failed = _failure(work) if work.done() else None
        stop.cancel()
        work.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await work
        self._enter("stopping", failed)
        # A server that stops waits for connections that are open.
        await self._control.close()
        for role in units.STOP_ORDER:
            await self._keepers[role].stop(units.STOP_GRACE_S)
        rotation.cancel()
        self._enter("failed" if failed else "stopped", failed)
        return 1 if failed else 0

    async def _live(self) -> None:
        self._enter("starting")
        record = self._record
        async with self._stage("reference", f"the tokens of {record.model_name} run in one process") as stage:
            self._known = reference.cached(record)
            stage.note = "known from before" if self._known else "computed"
            if self._known is None:
                try:
                    self._known = await reference.compute(
                        record, units.environment(record), self._state.log("reference")
                    )
                except reference.ReferenceFailed as error:
                    raise StageFailed(str(error)) from error
        async with self._stage("processes", "prefill, decode and router to be started") as stage:
            for role in ROLES:
                await self._launch(role)
            pids = {role: keeper.status.process for role, keeper in self._keepers.items()}
            stage.note = ", ".join(f"{role} pid {process.pid}" for role, process in pids.items() if process)
        await _all([self._first_ready(role) for role in ROLES])
        async with self._stage("canary", "known tokens to come back through prefill, KV and decode") as stage:
            await self._first_canary(stage)
        async with self._stage("open", "the router to take requests"):
            await self._control.open(record.endpoint)
        self._enter("ready")
        self._recheck.clear()
        await _all([*(self._keepers[role].keep() for role in ROLES), self._recanary()])

    async def _launch(self, role: Role) -> None:
        try:
            await self._keepers[role].launch()
        except UnitBroken as broken:
            raise StageFailed(f"{role} {broken}") from broken

    async def _first_ready(self, role: Role) -> None:
        doing = "answer" if role == "router" else f"load {self._record.model_name}"
        async with self._stage(role, f"{role} to {doing}"):
            try:
                await self._keepers[role].become_ready(self._left_s())
            except UnitBroken as broken:
                raise StageFailed(f"{role} {broken}") from broken

    async def _first_canary(self, stage: StageStatus) -> None:
        broken = asyncio.create_task(self._any_broken())
        asked = asyncio.create_task(self._ask_canary(min(self._left_s(), _CANARY_WITHIN_S)))
        try:
            await asyncio.wait([broken, asked], return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise StageFailed(f"{broken.result()} ended during the canary")
            last = asked.result()
        finally:
            broken.cancel()
            asked.cancel()
        if not last.passed:
            raise StageFailed(last.reason or "no reason given")
        stage.note = f"{last.tokens} tokens and {last.kv_bytes} bytes of KV crossed, all answers right"

    async def _any_broken(self) -> Role:
        while True:
            for role, keeper in self._keepers.items():
                if keeper.has_ended:
                    return role
            await asyncio.sleep(0.1)

    async def _ask_canary(self, within_s: float) -> CanaryStatus:
        assert self._known is not None
        endpoint, dtype = self._record.endpoint, self._record.dtype
        self.status.canary = last = await canary.run(self._control, endpoint, self._known, dtype, within_s)
        self._write()
        return last

    async def _recanary(self) -> None:
        """After every unit that became ready again: canary, then open what was reborn closed."""
        while True:
            await self._recheck.wait()
            self._recheck.clear()
            for attempt in range(_CANARY_TRIES):
                if any(keeper.status.state != "ready" for keeper in self._keepers.values()):
                    break
                if (await self._ask_canary(_CANARY_WITHIN_S)).passed:
                    await self._let_in()
                    break
                await asyncio.sleep(1.0 * 2**attempt)
            self._judge()

    async def _let_in(self) -> None:
        with suppress(CallFailed):
            if not await self._control.is_open(self._record.endpoint):
                await self._control.open(self._record.endpoint)

    def _judge(self) -> None:
        """The phase that follows from the units and the last canary, once the start is over."""
        if self.status.phase not in ("ready", "degraded"):
            return None
        for role, keeper in self._keepers.items():
            if keeper.status.state != "ready":
                return self._enter("degraded", f"{role} {keeper.status.reason or 'is starting again'}")
        last = self.status.canary
        if self._recheck.is_set():
            return self._enter("degraded", "waiting for the canary after a restart")
        if last is None or not last.passed:
            return self._enter("degraded", f"canary: {last.reason if last else 'not asked'}")
        return self._enter("ready")

    @asynccontextmanager
    async def _stage(self, name: str, waits_for: str) -> AsyncIterator[StageStatus]:
        stage = StageStatus(name=name, waits_for=waits_for, limit_s=round(self._left_s(), 1), started=time.time())
        began = time.monotonic()
        self.status.stages.append(stage)
        self._write()
        try:
            async with asyncio.timeout(self._left_s()):
                yield stage
        except TimeoutError:
            stage.failed = f"not done after {stage.limit_s:.0f} s"
            raise StageFailed(f"{name}: waited {stage.limit_s:.0f} s for {waits_for}") from None
        except (StageFailed, CallFailed) as error:
            stage.failed = str(error)
            raise StageFailed(f"{name}: {error}") from error
        except asyncio.CancelledError:
            stage.failed = "given up, because something else failed or the start was interrupted"
            raise
        finally:
            stage.seconds = round(time.monotonic() - began, 2)
            self._write()

    def _keeper(self, role: Role) -> Keeper:
        url = self._record.unit(role).url
        probe = self._control.router_unready if role == "router" else self._control.engine_unready
        return Keeper(
            Unit(units.command(self._state, role), units.environment(self._record, role), self._state.log(role)),
            lambda: probe(url),
            self._record.restart,
            ready_within_s=self._record.timeout_s,
            answer_within_s=_ANSWER_WITHIN_S,
            on_change=self._changed,
            on_ready=self._recheck.set,
        )

    def _changed(self) -> None:
        self._judge()
        self._write()

    def _enter(self, phase: Phase, reason: str | None = None) -> None:
        if phase != self.status.phase:
            self.status.since = time.time()
        self.status.phase, self.status.reason = phase, reason
        self._write()

    def _write(self) -> None:
        self.status.units = {role: keeper.status for role, keeper in self._keepers.items()}
        # A full disk must not end a deployment that serves; the next change tries again.
        with suppress(OSError):
            self._state.write_status(self.status)

    def _left_s(self) -> float:
        return max(self._deadline - time.monotonic(), 0.1)

    async def _bound_logs(self) -> None:
        while True:
            for name in (*ROLES, "supervisor", "reference"):
                with suppress(OSError):
                    logs.rotate(self._state.log(name))
            await asyncio.sleep(2.0)


def _failure(work: "asyncio.Task[None]") -> str:
    error = work.exception()
    if error is None:
        return "every unit has failed"
    return str(error) if isinstance(error, StageFailed) else f"the supervisor itself: {type(error).__name__}: {error}"


async def _all(work: list[Coroutine[Any, Any, None]]) -> None:
    """Runs all; the first failure cancels the others and is raised as it is."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _main(state: StateDir, record: Record) -> int:
    control = Control(state.secret.read_text(encoding="utf-8").strip())
    supervisor = Supervisor(state, record, control)
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, supervisor.request_stop)
    return await supervisor.run()


def main(root: Path) -> int:
    state = StateDir(root)
    record = state.record()
    if record is None:
        print(f"error: {root} holds no deployment", file=sys.stderr)
        return 2
    # A `status` that looks at the lock holds it for an instant.
    with filelock.hold(state.supervisor_lock, f"run {record.run}", wait_s=5.0):
        return asyncio.run(_main(state, record))


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.exit(main(Path(sys.argv[1])))
