"""A plan: what a check says that a run would change, and the digests of all that it stands on. Written, read, compared."""

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pdctl.errors import UsageError
from pdctl.provisioning.document import host_document
from pdctl.provisioning.fingerprint import Fingerprint, differences
from pdctl.provisioning.impact import gravest
from pdctl.provisioning.outcome import HostResult, Status

SCHEMA = "pdctl.plan/1"
_MAX_BYTES = 256 << 20
# Of these the check came to its end.
_PLANNED = (Status.OK, Status.CHANGED, Status.PARTLY)
_SHOWN = 8
_OPTIONS: Mapping[str, type | tuple[type, ...]] = {
    "inventory": str, "limit": (str, type(None)), "tags": list, "skip_tags": list, "become": bool,
    "while_serving": bool,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlannedHost:
    """state: item of the node's managed state -> digest. changes: (role, task) -> how often."""

    state: Mapping[str, str]
    changes: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Plan:
    """options: as of `Options.for_record`. left_out: hosts that the check did not come through on, and how they ended.

    document: all of it, as it is written.
    """

    run: str
    salt: str
    options: Mapping[str, Any]
    fingerprint: Fingerprint
    hosts: Mapping[str, PlannedHost]
    left_out: Mapping[str, str]
    document: Mapping[str, Any]


def plan_document(
    run: str,
    salt: str,
    options: Mapping[str, Any],
    fingerprint: Fingerprint,
    results: tuple[HostResult, ...],
    states: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """run: id of the check. states: host -> item -> digest."""
    planned = [host for host in results if host.status in _PLANNED and host.name in states]
    return {
        "schema": SCHEMA,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "run": run,
        "salt": salt,
        "options": {key: options[key] for key in _OPTIONS},
        "fingerprint": fingerprint,
        "hosts": {
            host.name: {
                "impact": gravest(change.impact for change in host.changes),
                "state": states[host.name],
                "changes": host_document(host)["changes"],
            }
            for host in planned
        },
        "left_out": {host.name: host.status.value for host in results if host not in planned},
    }


def write_plan(path: Path, document: Mapping[str, Any]) -> None:
    """For the owner's eyes only, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
        json.dump(document, stream, ensure_ascii=False, indent=1)
        stream.write("\n")
    partial.replace(path)


def read_plan(path: Path) -> Plan:
    """
    Raises:
        UsageError: no such file, or no plan.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"larger than {_MAX_BYTES} bytes")
        return _plan(json.loads(content))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        hint = "`pdctl provision INVENTORY --plan-out FILE` writes one"
        raise UsageError(f"no plan in `{path}`", detail=why, hint=hint) from None


def moved(then: Fingerprint, now: Fingerprint) -> list[str]:
    """What a plan or a run stands on and is not as it was, one line a kind."""
    lines = []
    for kind in ("inventory", "policy", "roles", "variables"):
        if names := differences(then.get(kind, {}), now[kind]):
            lines.append(f"{kind}: {_named(names)}")
    return lines


def moved_nodes(plan: Plan, states: Mapping[str, Mapping[str, str]]) -> list[str]:
    """states: what the nodes of the plan are now. One line a node that is not as it was."""
    lines = []
    for host, planned in plan.hosts.items():
        if names := differences(planned.state, states.get(host, {})):
            lines.append(f"node {host}: {_named(names) if host in states else 'its state is not known'}")
    return lines


def mark_deviations(plan: Plan, hosts: Mapping[str, HostResult]) -> None:
    """Adds to each host what it changed beyond the plan (a problem), and what it did not need to change (a notice).

    A host that was through in an earlier try of the run may have been told already.
    """
    for name, planned in plan.hosts.items():
        host = hosts[name]
        done = Counter((change.role, change.task) for change in host.changes)
        for role, task in done - Counter(planned.changes):
            message = "was changed, and the plan did not say so"
            _tell(host.problems, {"role": role, "key": task, "outcome": "unplanned", "message": message})
        if host.finished and host.failure is None and host.unreachable is None:
            for role, task in Counter(planned.changes) - done:
                _tell(host.notices, {"role": role, "key": task, "message": "was planned, and needed no change"})


def _tell(told: list[Mapping[str, Any]], entry: Mapping[str, Any]) -> None:
    if entry not in told:
        told.append(entry)


def _plan(document: dict[str, Any]) -> Plan:
    if document["schema"] != SCHEMA:
        raise ValueError(f"its schema is {document['schema']!r}")
    options = document["options"]
    if wrong := [key for key, kind in _OPTIONS.items() if not isinstance(options[key], kind)]:
        raise ValueError(f"of the wrong kind: {', '.join(wrong)}")
    hosts = {
        name: PlannedHost(
            {str(item): str(digest) for item, digest in host["state"].items()},
            Counter((str(change["role"]), str(change["task"])) for change in host["changes"]),
        )
        for name, host in document["hosts"].items()
    }
    prints = {kind: dict(document["fingerprint"][kind]) for kind in ("inventory", "policy", "roles", "variables")}
    left_out = {name: str(status) for name, status in document["left_out"].items()}
    return Plan(str(document["run"]), str(document["salt"]), dict(options), prints, hosts, left_out, document)


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
