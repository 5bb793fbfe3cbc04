"""From nothing to an open router: reference → processes → prefill, decode and router ready → canary → open."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from pdctl.deploy import canary, reference, units
from pdctl.deploy.board import Board, OutOfTime, StageFailed
from pdctl.deploy.control import Control
from pdctl.deploy.keeper import NotReadyInTime, UnitBroken
from pdctl.deploy.reference import Known
from pdctl.deploy.state import ROLES, CanaryStatus, Record, Role, StateDir

CANARY_WITHIN_S = 60.0


async def start_up(board: Board, state: StateDir, record: Record, control: Control) -> Known:
    """Returns the known tokens once the router is open. Raises StageFailed; what was started is then still there."""
    known = await _reference(board, state, record)
    async with board.stage("processes", "prefill, decode and router to be started") as stage:
        for role in ROLES:
            await _launch(board, role)
        pids = {role: keeper.status.process for role, keeper in board.keepers.items()}
        stage.note = ", ".join(f"{role} pid {process.pid}" for role, process in pids.items() if process)
    await together([_ready(board, record, role) for role in ROLES])
    async with board.stage("canary", "known tokens to come back through prefill, KV and decode") as stage:
        last = await _canary(board, record, control, known)
        stage.note = f"{last.tokens} tokens and {last.kv_bytes:,} bytes of KV crossed, all answers right"
    async with board.stage("open", "the router to take requests"):
        await control.open(record.endpoint)
    return known


async def together(work: list[Coroutine[Any, Any, None]]) -> None:
    """Runs all; the first failure cancels the others and is raised as it is."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _reference(board: Board, state: StateDir, record: Record) -> Known:
    async with board.stage("reference", f"the tokens of {record.model_name} run in one process") as stage:
        if (known := reference.cached(record)) is not None:
            stage.note = "known from before"
            return known
        try:
            known = await reference.compute(record, units.environment(record), state.log("reference"))
        except reference.ReferenceFailed as error:
            raise StageFailed(str(error)) from error
        stage.note = "computed"
        return known


async def _launch(board: Board, role: Role) -> None:
    try:
        await board.keepers[role].launch()
    except UnitBroken as broken:
        raise StageFailed(f"{role} {broken}") from broken


async def _ready(board: Board, record: Record, role: Role) -> None:
    doing = "answer" if role == "router" else f"load {record.model_name}"
    async with board.stage(role, f"{role} to {doing}"):
        try:
            await board.keepers[role].become_ready(board.left_s)
        except NotReadyInTime as late:
            raise OutOfTime(str(late)) from late
        except UnitBroken as broken:
            raise StageFailed(str(broken)) from broken


async def _canary(board: Board, record: Record, control: Control, known: Known) -> CanaryStatus:
    within_s = min(board.left_s, CANARY_WITHIN_S)
    broken = asyncio.create_task(_first_to_end(board))
    asked = asyncio.create_task(canary.run(control, record.endpoint, known, record.dtype, within_s))
    try:
        await asyncio.wait([broken, asked], return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise StageFailed(f"{broken.result()} ended during the canary")
        last = asked.result()
    finally:
        broken.cancel()
        asked.cancel()
    board.canary(last)
    if not last.passed:
        late = not last.wrong and within_s < CANARY_WITHIN_S and last.seconds >= within_s - 0.5
        raise (OutOfTime if late else StageFailed)(last.reason or "no reason given")
    return last


async def _first_to_end(board: Board) -> Role:
    while True:
        for role, keeper in board.keepers.items():
            if keeper.has_ended:
                return role
        await asyncio.sleep(0.1)
