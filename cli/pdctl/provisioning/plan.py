"""A plan: what a check says that a run would change, and the digests of all that it stands on. Written, read, compared."""

import contextlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from pdchecks.given_file import read_given
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


def refuse_unwritable(path: Path) -> None:
    """Before the nodes are looked at.

    Raises:
        UsageError: no plan could be written there.
    """
    hint = "name a file in a folder that you may write in"
    if path.exists() and not path.is_file():
        raise UsageError(f"the plan cannot be written to `{path}`: it is no file", hint=hint)
    try:
        with _partial(path) as (stream, partial):
            stream.flush()
            partial.unlink()
    except OSError as error:
        raise UsageError(f"the plan cannot be written to `{path}`: {error.strerror}", hint=hint) from None


def write_plan(path: Path, document: Mapping[str, Any]) -> None:
    """For the owner's eyes only, whole or not at all; through a link."""
    with _partial(path) as (stream, partial):
        json.dump(document, stream, ensure_ascii=False, indent=1)
        stream.write("\n")
        stream.flush()
        partial.replace(Path(os.path.realpath(path)))


@contextlib.contextmanager
def _partial(path: Path) -> Iterator[tuple[IO[str], Path]]:
    """A new file beside it, which is gone unless it was renamed."""
    target = Path(os.path.realpath(path))
    descriptor, name = tempfile.mkstemp(prefix=".pdctl-plan-", dir=target.parent)
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            yield stream, partial
    finally:
        partial.unlink(missing_ok=True)


def read_plan(path: Path) -> Plan:
    """
    Raises:
        UsageError: no such file, or no plan.
    """
    try:
        return _plan(json.loads(read_given(path, _MAX_BYTES)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        if isinstance(error, KeyError):
            why = f"it has no `{error.args[0]}`"
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
        raise ValueError(f"its schema is `{document['schema']}`, and this pdctl reads `{SCHEMA}`")
    options = document["options"]
    wrong = [key for key, kind in _OPTIONS.items() if not isinstance(options[key], kind)]
    wrong += [key for key in ("tags", "skip_tags") if not all(isinstance(tag, str) for tag in options[key])]
    if wrong:
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
    if unsaid := [name for name in prints["inventory"] if name not in hosts and name not in left_out]:
        raise ValueError(f"neither planned nor left out: {_named(unsaid)}")
    return Plan(str(document["run"]), str(document["salt"]), dict(options), prints, hosts, left_out, document)


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
