"""`pdctl up`, from a specification to an open router, or back to where it began."""

import getpass
import os
import platform
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pdctl.deploy import logs, models, plan, ports, process
from pdctl.deploy.local import LocalSupervisor, Snapshot, Supervisor, promised_ports
from pdctl.deploy.spec import DeploymentSpec
from pdctl.deploy.state import Record, Role, StateUnreadable
from pdctl.deploy.units import STOP_GRACE_S, STOP_ORDER
from pdctl.errors import PdError
from pdctl.exit_codes import ExitCode
from pdctl.render.stages import StageLines
from pdserve import filelock

_POLL_S = 0.1
_STOP_WAIT_S = 5.0
# An `up` that is told to stop rolls back: its supervisor may take its full grace for each unit.
_UP_ENDS_WITHIN_S = len(STOP_ORDER) * STOP_GRACE_S + 15.0


@dataclass(frozen=True, slots=True)
class Up:
    """started: False when it was running before."""

    record: Record
    started: bool
    since: float


def bring_up(spec: DeploymentSpec, lines: StageLines, *, foreground: bool = False) -> Up:
    """Returns when the canary has passed and the router is open. Raises PdError; then nothing of it runs."""
    local = LocalSupervisor(spec.name)
    local.state.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with filelock.hold(local.state.operator_lock, operator("up")):
            return _bring_up(spec, local, lines, foreground)
    except filelock.LockHeld as held:
        raise busy(spec.name, held) from held


def stay_up(spec: DeploymentSpec, lines: StageLines, announce: Callable[[str], None]) -> None:
    """Brings up, announces the endpoint, and stays until SIGINT or SIGTERM, which take the deployment down."""
    local = LocalSupervisor(spec.name)
    up = bring_up(spec, lines, foreground=True)
    if not up.started:
        raise PdError(
            f"deployment `{spec.name}` runs already, in the background",
            hint=f"pdctl down --name {spec.name}",
            code=ExitCode.PARTLY,
        )
    try:
        announce(up.record.endpoint + "/v1")
        while (snapshot := local.snapshot()) is not None and snapshot.supervised:
            time.sleep(0.5)
    except KeyboardInterrupt:
        take_down(spec.name)
        return
    raise _failure(local, snapshot) if snapshot else PdError("the deployment was taken down", code=ExitCode.PARTLY)


def take_down(name: str, say: Callable[[str], None] = lambda text: None) -> list[str]:
    """Stops whatever runs of the deployment and says what that was. An `up` under way is told to stop first.

    Raises PdError when something is left.
    """
    local = LocalSupervisor(name)
    lock = local.state.operator_lock
    if not local.state.root.is_dir():
        return []
    interrupted = _interrupt_up(lock, say)
    wait_s = _STOP_WAIT_S if interrupted is None else _UP_ENDS_WITHIN_S
    try:
        with filelock.hold(lock, operator("down"), wait_s=wait_s):
            done = local.stop()
            if not done.left:
                local.forget()
    except filelock.LockHeld as held:
        raise busy(name, held) from held
    if done.left:
        raise PdError(
            f"deployment `{name}` is not down",
            detail="\n".join(f"still running: pid {each.pid}" for each in done.left),
            hint="they did not end on SIGKILL: look at their state with `ps -o pid,stat,wchan:20,cmd`",
        )
    return ([] if interrupted is None else [f"`pdctl up` pid {interrupted.pid}"]) + done.stopped


def _interrupt_up(lock: Path, say: Callable[[str], None]) -> process.ProcessId | None:
    """Does to the `pdctl up` that holds the lock what Ctrl-C does: it stops what it has started, and ends."""
    holder = filelock.holder(lock)
    named = re.match(r"`pdctl up` .*, pid (\d+), since ", holder or "")
    found = process.identify(int(named[1])) if named else None
    # Words in a file are no proof; that the process has this very file open is.
    if found is None or not process.has_open(found.pid, lock):
        return None
    say(f"telling {holder} to stop")
    process.signal_to(found, signal.SIGTERM)
    return found


def operator(verb: str) -> str:
    """What the lock tells another operator: who, from where, since when."""
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"`pdctl {verb}` of {getpass.getuser()} on {platform.node()}, pid {os.getpid()}, since {since}"


def busy(name: str, held: filelock.LockHeld) -> PdError:
    return PdError(
        f"somebody else is changing deployment `{name}`",
        detail=held.holder,
        hint="wait for it to end, then try again",
        code=ExitCode.PARTLY,
    )


def _bring_up(spec: DeploymentSpec, local: Supervisor, lines: StageLines, foreground: bool) -> Up:
    devices = plan.devices(spec)
    if (running := _running(spec, local, lines)) is not None:
        _require_same(spec, devices, running)
        return _follow(local, lines, started=False)
    began = time.monotonic()
    model = models.resolve(spec.model, lines.say)
    lines.done("model", time.monotonic() - began, f"{model.name} in {model.path}")
    try:
        with promised_ports(spec.name) as promised:
            record = plan.record(spec, model, devices, operator("up"), promised)
            local.start(record, foreground=foreground)
        return _follow(local, lines, started=True)
    except KeyboardInterrupt:
        lines.say("interrupted: stopping what was started")
        _roll_back(local)
        local.forget()
        raise PdError("interrupted; what was started has been stopped", code=ExitCode.INTERRUPTED) from None
    except (PdError, filelock.LockHeld):
        raise
    except BaseException:
        _roll_back(local)
        local.forget()
        raise


def _running(spec: DeploymentSpec, local: Supervisor, lines: StageLines) -> Snapshot | None:
    """The deployment of this name if a supervisor keeps it; otherwise what an earlier one left is cleared away."""
    try:
        snapshot = local.snapshot()
    except StateUnreadable as error:
        raise PdError(
            f"the state of deployment `{spec.name}` cannot be read",
            detail=str(error),
            hint=f"pdctl down --name {spec.name}",
        ) from error
    if snapshot is None or snapshot.supervised:
        return snapshot
    if process.carrying(snapshot.record.run):
        lines.say("clearing away the processes of a deployment whose supervisor is gone")
        _roll_back(local)
    local.forget()
    return None


def _require_same(spec: DeploymentSpec, devices: dict[Role, tuple[str, str]], running: Snapshot) -> None:
    """What was asked for by name must be what runs; a default asks for nothing."""
    record = running.record
    asked = spec.router.model_fields_set
    wanted = {
        "model": spec.model and models.located(spec.model),
        "dtype": spec.dtype,
        "security": spec.security if "security" in spec.model_fields_set else None,
        "host": spec.router.host if "host" in asked else None,
        "port": spec.router.port or None if "port" in asked else None,
        "request_deadline_s": spec.router.request_deadline_s if "request_deadline_s" in asked else None,
        "prefill": spec.pools.prefill.kind and devices["prefill"][0],
        "decode": spec.pools.decode.kind and devices["decode"][0],
    }
    stands = {
        "model": str(record.model),
        "dtype": record.dtype,
        "security": record.security,
        "host": record.host,
        "port": record.port,
        "request_deadline_s": record.request_deadline_s,
        "prefill": record.unit("prefill").gpu_kind,
        "decode": record.unit("decode").gpu_kind,
    }
    differing = [
        f"{key}: runs {stands[key]}, asked for {want}"
        for key, want in wanted.items()
        if want not in (None, stands[key])
    ]
    if differing:
        raise PdError(
            f"deployment `{spec.name}` runs with other settings",
            detail="\n".join(differing),
            hint=f"`pdctl down --name {spec.name}` first, or give this one another name with `--name`",
            code=ExitCode.USAGE,
        )


def _follow(local: Supervisor, lines: StageLines, *, started: bool) -> Up:
    shown: set[str] = set()
    while True:
        snapshot = local.snapshot()
        if snapshot is None:
            raise PdError("the deployment was taken down while it started", code=ExitCode.PARTLY)
        status = snapshot.status
        if status is not None:
            if started:
                _show(snapshot, lines, shown)
            if status.phase == "ready":
                return Up(snapshot.record, started, status.since)
            if status.phase == "degraded" and snapshot.supervised:
                raise PdError(
                    f"deployment `{local.name}` runs, but is not well: {status.reason}",
                    hint="`pdctl status` and `pdctl logs` tell more; `pdctl down` and `pdctl up` start it afresh",
                    code=ExitCode.FINDINGS,
                )
        if not snapshot.supervised:
            raise _failure(local, local.snapshot() or snapshot)
        time.sleep(_POLL_S)


def _show(snapshot: Snapshot, lines: StageLines, shown: set[str]) -> None:
    assert snapshot.status is not None
    for stage in snapshot.status.stages:
        if stage.name in shown:
            continue
        if stage.seconds is None:
            lines.waiting(stage.name, stage.waits_for, time.time() - stage.started, stage.limit_s)
            continue
        shown.add(stage.name)
        if stage.failed is None:
            lines.done(stage.name, stage.seconds, stage.note)
        else:
            lines.failed(stage.name, stage.seconds, stage.failed)


def _failure(local: Supervisor, snapshot: Snapshot) -> PdError:
    """What went wrong, with the last words of who knows; everything that was started is gone, or named."""
    status = snapshot.status
    reason = status.reason if status and status.phase == "failed" and status.reason else "the supervisor itself ended"
    first = reason.partition(":")[0]
    log = first if first in ("reference", "prefill", "decode", "router") else "supervisor"
    if first == "canary":
        log = "router"
    words = logs.since(local.tail(log, 8), snapshot.record.created)
    left = _roll_back(local)
    if not left and (lost := _lost_port(snapshot.record, log, words)) is not None:
        return lost
    hint = f"`pdctl logs {log} --name {local.name} -n 50` shows more"
    if status and status.out_of_time:
        given = f"{snapshot.record.timeout_s:g} s"
        hint = (
            f"it was to be ready within {given}: `--timeout SECONDS` or `timeout_s` in pdctl.yaml gives it more; {hint}"
        )
    shown = [f"  {line}" for line in words] or ["  (it has written nothing)"]
    return PdError(
        f"deployment `{local.name}` did not come up: {reason}",
        detail="\n".join([f"last lines of the {log} log:", *shown, *left]),
        hint=hint,
        code=ExitCode.FAILED if left else ExitCode.PARTLY,
    )


def _lost_port(record: Record, role: str, words: list[str]) -> PdError | None:
    """Somebody else took a port after it was found free and before the unit bound it: the error says so, and who."""
    if not any('"errno": "EADDRINUSE"' in line for line in words[-1:]):
        return None
    wanted = [listener for listener in record.listeners if listener.role == role]
    taken = next((each for each in wanted if ports.is_taken(each.host, each.port)), wanted[0])
    return ports.in_use(taken.host, taken.port, f"it was taken while {role} started, and everything else was stopped")


def _roll_back(local: Supervisor) -> list[str]:
    """Stops everything; returns a line for each process that could not be ended."""
    return [f"still running: pid {each.pid}" for each in local.stop().left]
