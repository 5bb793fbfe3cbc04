"""The supervisor of one deployment on this host: `python -m pdctl.deploy.supervisor STATE_DIR`.

    start-up   pdctl.deploy.startup; any failure: stop all units, end
    running    a keeper for each unit, and pdctl.deploy.watch over all: a canary after every restart
    SIGTERM    stop router, then prefill, then decode; end

It holds supervisor.lock while it lives; the units die with it, however it ends. The interface that `pdctl` sees is
`pdctl.deploy.local`; a service manager can stand behind the same one.
"""

import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path

from pdctl.deploy import logs, units
from pdctl.deploy.board import Board, OutOfTime, StageFailed
from pdctl.deploy.control import Control
from pdctl.deploy.keeper import Keeper
from pdctl.deploy.startup import start_up, together
from pdctl.deploy.state import ROLES, Record, Role, StateDir
from pdctl.deploy.unit import Unit
from pdctl.deploy.watch import Watch
from pdserve import filelock
from pdserve.secret_file import SecretFile

_ASK_EVERY_S = 2.0
# A health call that is not answered costs five seconds, so this is three or four of them. The answer does not depend on
# what a unit computes. It is less than a request's usual deadline: a stream of a frozen decode can still be resumed.
_ANSWER_WITHIN_S = 20.0


class Supervisor:
    def __init__(self, state: StateDir, record: Record, control: Control) -> None:
        self._state = state
        self._record = record
        self._control = control
        self._stop = asyncio.Event()
        self._board = Board(state, record.timeout_s)
        self._watch = Watch(self._board, record, control)
        self._board.keepers = {role: self._keeper(role) for role in ROLES}

    def request_stop(self) -> None:
        self._stop.set()

    async def run(self) -> int:
        """Exit status: 0 when asked to stop, 1 when the deployment did not come up."""
        work = asyncio.create_task(self._live())
        rotation = asyncio.create_task(self._bound_logs())
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait([work, stop], return_when=asyncio.FIRST_COMPLETED)
        failed = _failure(work) if work.done() else None
        self._board.status.out_of_time = work.done() and isinstance(work.exception(), OutOfTime)
        stop.cancel()
        work.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await work
        self._board.enter("stopping", failed)
        # A server that stops waits for connections that are open.
        await self._control.close()
        for role in units.STOP_ORDER:
            await self._board.keepers[role].stop(units.STOP_GRACE_S)
        rotation.cancel()
        self._board.enter("failed" if failed else "stopped", failed)
        return 1 if failed else 0

    async def _live(self) -> None:
        self._board.enter("starting")
        known = await start_up(self._board, self._state, self._record, self._control)
        self._watch.begin()
        await together([*(keeper.keep() for keeper in self._board.keepers.values()), self._watch.prove(known)])

    def _keeper(self, role: Role) -> Keeper:
        url = self._record.unit(role).url
        probe = self._control.router_unready if role == "router" else self._control.engine_unready
        return Keeper(
            Unit(units.command(self._state, role), units.environment(self._record, role), self._state.log(role)),
            lambda: probe(url),
            self._record.restart,
            ready_within_s=self._record.timeout_s,
            ask_every_s=_ASK_EVERY_S,
            answer_within_s=_ANSWER_WITHIN_S,
            on_change=self._watch.judge,
            on_ready=self._watch.recheck,
        )

    async def _bound_logs(self) -> None:
        while True:
            for name in (*ROLES, "supervisor", "reference"):
                with suppress(OSError):
                    logs.rotate(self._state.log(name))
            await asyncio.sleep(2.0)


def _failure(work: "asyncio.Task[None]") -> str:
    error = work.exception()
    if isinstance(error, StageFailed):
        return str(error)
    return f"the supervisor itself: {type(error).__name__}: {error}"


async def _main(state: StateDir, record: Record) -> int:
    control = Control(SecretFile(state.secret), record.run)
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
