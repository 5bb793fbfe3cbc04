"""status.json of a supervisor, `pdctl.supervisor/1`, and which of its processes live (`ls -d /proc/PID ...`)."""

import json
import re
from typing import Any

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.deployment import Canary, LiveProcesses, SupervisedUnit
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_PATH = re.compile(r"/deployments/(?P<name>[^/\s]{1,80})/status\.json")
_LIVE = re.compile(r"ls -d (?:/proc/\d{1,10} ?)+")
_PROC = re.compile(r"/proc/(?P<pid>\d{1,10})")
_SHAPE = re.compile(r"\"schema\": ?\"pdctl\.supervisor/1\"")


def parse(block: Block) -> list[Fact] | Unknown:
    if _LIVE.match(block.command):
        found = (_PROC.fullmatch(line.strip()) for line in block.lines)
        pids = frozenset(int(match["pid"]) for match in found if match)
        return [LiveProcesses(quote=block.quote(block.output or "(none)"), pids=pids)]
    path = _PATH.search(block.command)
    name = path["name"] if path else "(deployment not named)"
    try:
        status = json.loads(block.output)
    except (ValueError, RecursionError):
        return Unknown(f"the status of deployment {name} is no JSON")
    if not isinstance(status, dict):
        return Unknown(f"the status of deployment {name} is no object")
    facts: list[Fact] = []
    units, canary = status.get("units"), status.get("canary")
    for role, unit in units.items() if isinstance(units, dict) else ():
        if isinstance(unit, dict):
            facts.append(_unit(block, name, role, unit))
    if isinstance(canary, dict):
        passed, wrong = canary.get("passed") is True, canary.get("wrong") is True
        reason = _text(canary.get("reason"))
        quote = block.quote(f"canary passed: {passed} wrong: {wrong} reason: {reason}")
        facts.append(Canary(quote=quote, deployment=name, passed=passed, wrong=wrong, reason=reason))
    return facts


def _unit(block: Block, deployment: str, role: str, unit: dict[str, Any]) -> SupervisedUnit:
    process = unit.get("process")
    pid = process.get("pid") if isinstance(process, dict) else 0
    restarts = unit.get("restarts")
    state, reason = _text(unit.get("state")), _text(unit.get("reason"))
    return SupervisedUnit(
        quote=block.quote(f"{role}: state {state}, restarts {restarts}, pid {pid}, reason {reason or 'none'}"),
        deployment=deployment,
        role=role,
        state=state,
        reason=reason,
        restarts=restarts if isinstance(restarts, int) else 0,
        pid=pid if isinstance(pid, int) else 0,
    )


def _text(value: object) -> str:
    return value[:300] if isinstance(value, str) else ""


def _claims(block: Block) -> bool:
    return bool(_PATH.search(block.command)) or bool(_LIVE.match(block.command)) or looks_like(block, _SHAPE)


READER = Reader("pdctl supervisor", _claims, parse)
