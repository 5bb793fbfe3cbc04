"""What `pdctl status` says of a deployment: its record, the supervisor's last word, and the processes themselves."""

import time
from typing import Any

from pdctl.deploy.local import Snapshot
from pdctl.deploy.state import ROLES, Role
from pdctl.exit_codes import ExitCode

SCHEMA = "pdctl.status/1"


def view(name: str, snapshot: Snapshot | None, now: float) -> dict[str, Any]:
    """The JSON document. What cannot be known is null, with a reason beside it."""
    if snapshot is None:
        return {"schema": SCHEMA, "name": name, "phase": "absent", "reason": "nothing is deployed", "units": []}
    record, status = snapshot.record, snapshot.status
    phase, reason = _phase(snapshot)
    return {
        "schema": SCHEMA,
        "name": name,
        "phase": phase,
        "reason": reason,
        "since": _iso(status.since) if status else None,
        "endpoint": f"{record.endpoint}/v1",
        "model": record.model_name,
        "model_path": str(record.model),
        "dtype": record.dtype,
        "supervisor": {
            "pid": status.supervisor.pid if status and status.supervisor and snapshot.supervised else None,
            "alive": snapshot.supervised,
        },
        "units": [_unit(snapshot, role, now) for role in ROLES],
        "canary": _canary(snapshot),
    }


def exit_code(document: dict[str, Any]) -> ExitCode:
    """0 ready; 3 nothing to look at, or not known yet; 1 known not to be ready."""
    if document["phase"] == "ready":
        return ExitCode.DONE
    return ExitCode.INCOMPLETE if document["phase"] in ("absent", "starting") else ExitCode.FINDINGS


def _phase(snapshot: Snapshot) -> tuple[str, str | None]:
    status = snapshot.status
    if snapshot.supervised:
        return (status.phase, status.reason) if status else ("starting", None)
    if status is not None and status.phase in ("failed", "stopped"):
        return status.phase, status.reason
    return "lost", "its supervisor is gone without a word: killed, or the machine was restarted"


def _unit(snapshot: Snapshot, role: Role, now: float) -> dict[str, Any]:
    planned = snapshot.record.unit(role)
    unit = snapshot.status.units.get(role) if snapshot.status else None
    process = unit.process if unit and unit.process and unit.process.alive else None
    state: str = unit.state if unit else "unknown"
    reason = unit.reason if unit else "the supervisor has not reported yet"
    if process is None and state in ("starting", "ready", "not-answering"):
        state, reason = "dead", reason or "the process is gone"
    if process is not None and not snapshot.supervised:
        state, reason = "unsupervised", "runs without its supervisor; `pdctl down` ends it"
    return {
        "role": role,
        "name": planned.name,
        "pid": process.pid if process else None,
        "state": state,
        "reason": reason,
        "uptime_s": round(now - unit.since, 1) if process and unit and unit.since else None,
        "restarts": unit.restarts if unit else 0,
        "gpu_kind": planned.gpu_kind,
        "device": planned.device,
        "endpoint": planned.url,
    }


def _canary(snapshot: Snapshot) -> dict[str, Any] | None:
    last = snapshot.status.canary if snapshot.status else None
    return None if last is None else {**last.model_dump(), "at": _iso(last.at)}


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(seconds))
