"""The controller's copies of what nodes keep of their former state: taken out of the events, used for a way back."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pdctl.errors import UsageError
from pdctl.provisioning.batches import pattern
from pdctl.provisioning.outcome import Status
from pdctl.provisioning.record import BACKUPS, file_of, runs_dir
from pdctl.provisioning.runs import RUN_ID, Run, State

ROLLBACK = "runs rollback"
_ACTIONS = ("pdctl_backup", "pdctl_rollback")
_NOT_CHANGED = {Status.OK, Status.UNFIT, Status.UNTOUCHED}


def take_copy(event: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """(host, what its node kept), removed from the event so that the record holds it once. None: there is none."""
    data = event.get("event_data") or {}
    if event.get("event") != "runner_on_ok" or data.get("task_action") not in _ACTIONS:
        return None
    copy = (data.get("res") or {}).pop("copy", None)
    return (str(data.get("host", "")), copy) if copy else None


def variables_of_a_way_back(run: str, record: Run | None, *, force: bool) -> Mapping[str, Any]:
    """record: None where the run was recorded on another machine; the nodes' own backups are enough."""
    copies = {"backup_copies": str(record.folder / BACKUPS)} if record else {}
    return {"backup_of": run, "backup_force": force, **copies}


def refuse_without_a_way_back(run: Run) -> None:
    """
    Raises:
        UsageError: the run changed nothing by its nature, or is still under way.
    """
    if run.state is State.RUNNING:
        raise UsageError(f"run {run.id} is still running", hint="wait for its end, or interrupt it first")
    if run.options.get("check"):
        raise UsageError(f"run {run.id} was a check: it changed nothing")


def newest_to_roll_back(runs: Iterable[Run]) -> Run:
    """The first that may have changed a node: no check, no rollback, and none that ended with every host as it was.

    runs: the newest first.

    Raises:
        UsageError: there is none.
    """
    for run in runs:
        ended = run.about.get("summary") or {}
        as_it_was = run.state is State.ENDED and bool(ended) and set(ended) <= _NOT_CHANGED
        if not (run.options.get("check") or run.about.get("command") == ROLLBACK or as_it_was):
            return run
    raise UsageError(
        "no run that is recorded here changed a node",
        detail=f"the records are in {runs_dir()}",
        hint="on the machine that provisioned: `pdctl runs list`; or give the whole id of a run, and `-i INVENTORY`",
    )


def record_of(asked: str, find: Callable[[str], Run], *, without_record: bool) -> tuple[str, Run | None]:
    """(id, record). Without a record here only a whole id can be meant, and only where the caller allows it.

    Raises:
        UsageError: no run is meant by it.
    """
    try:
        run = find(asked)
    except UsageError:
        if without_record and RUN_ID.fullmatch(asked):
            return asked, None
        raise
    return run.id, run


def limit_of(run: Run) -> str | None:
    """The hosts that the run reached, as a pattern; where a name cannot stand in one, the run's own limit."""
    names = [name for name in run.hosts if (run.folder / BACKUPS / file_of(name)).exists()]
    return pattern(names) or run.options.get("limit")
