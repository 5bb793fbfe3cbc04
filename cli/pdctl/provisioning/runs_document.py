"""The JSON of `pdctl runs`: `pdctl.runs/1` (all) and `pdctl.run/1` (one), described by runs.schema.json beside this file."""

from collections.abc import Sequence
from typing import Any

from pdctl.provisioning.document import host_document
from pdctl.provisioning.outcome import HostResult
from pdctl.provisioning.runs import Results, Run


def list_document(runs: Sequence[Run]) -> dict[str, Any]:
    return {"schema": "pdctl.runs/1", "runs": [about(run) for run in runs]}


def run_document(run: Run, results: Results, hosts: Sequence[HostResult]) -> dict[str, Any]:
    """hosts: those of the results that were asked for."""
    documents = [host_document(host) for host in hosts]
    return {"schema": "pdctl.run/1", "run": about(run), "hosts": documents, "faults": list(results.faults)}


def about(run: Run) -> dict[str, Any]:
    """Null is what the record does not say."""
    return {
        "id": run.id,
        "folder": str(run.folder),
        "state": run.state.value,
        "fault": run.fault,
        **{key: run.about.get(key) for key in ("command", "started", "ended", "exit_code", "controller", "user")},
        "resumed": run.about.get("resumed") or [],
        "inventory": run.options.get("inventory"),
        "check": run.options.get("check"),
        "summary": run.about.get("summary"),
    }
