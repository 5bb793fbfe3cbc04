"""A deployment that is up: is it ready? Every unit has to be, and a canary has to have passed since one last broke."""

import asyncio
from contextlib import suppress

from pdctl.deploy import canary
from pdctl.deploy.board import Board
from pdctl.deploy.control import CallFailed, Control
from pdctl.deploy.reference import Known
from pdctl.deploy.startup import CANARY_WITHIN_S
from pdctl.deploy.state import Record, Role

_LONGEST_PAUSE_S = 30.0


class Watch:
    """judge() at every change of a unit; recheck() when one became ready; prove() runs beside the keepers."""

    def __init__(self, board: Board, record: Record, control: Control) -> None:
        self._board = board
        self._record = record
        self._control = control
        self._wanted = asyncio.Event()
        self._proven = False
        self._breaks = 0

    def begin(self) -> None:
        """The start is over, its canary has passed."""
        self._proven = True
        self._wanted.clear()
        self._board.enter("ready")

    def recheck(self) -> None:
        self._wanted.set()

    def judge(self) -> None:
        """The phase that follows from the units and the canary."""
        board = self._board
        if board.status.phase not in ("ready", "degraded"):
            return board.write()
        if (role := self._broken()) is not None:
            self._breaks += 1
            self._proven = False
            return board.enter("degraded", f"{role} {board.keepers[role].status.reason or 'is starting again'}")
        if not self._proven:
            last = board.status.canary
            why = last.reason if last and not last.passed else "not yet passed since the restart"
            return board.enter("degraded", f"canary: {why}")
        return board.enter("ready")

    async def prove(self, known: Known) -> None:
        """After a restart: canary until it passes, and only then open a router that was reborn closed.

        Wrong tokens shut the router: a client can retry an error, not a wrong answer.
        """
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            pause_s = 0.5
            while not self._proven and self._broken() is None:
                breaks = self._breaks
                last = await canary.run(
                    self._control, self._record.endpoint, known, self._record.dtype, CANARY_WITHIN_S
                )
                self._board.canary(last)
                with suppress(CallFailed):
                    if last.wrong:
                        await self._control.shut(self._record.endpoint, f"canary: {last.reason}")
                    elif last.passed and breaks == self._breaks:
                        await self._let_in()
                        self._proven = True
                self.judge()
                if not self._proven:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _let_in(self) -> None:
        if not await self._control.is_open(self._record.endpoint):
            await self._control.open(self._record.endpoint)

    def _broken(self) -> Role | None:
        return next((role for role, keeper in self._board.keepers.items() if keeper.status.state != "ready"), None)
