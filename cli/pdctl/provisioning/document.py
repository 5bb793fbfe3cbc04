"""The JSON form of a report: `pdctl.provision/1`, described by provision.schema.json beside this file."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from pdctl.provisioning.outcome import HostResult, Status

if TYPE_CHECKING:
    from pdctl.provisioning.run import Report

SCHEMA = "pdctl.provision/1"


def document(report: "Report") -> dict[str, Any]:
    counts = Counter(host.status for host in report.hosts)
    return {
        "schema": SCHEMA,
        "run": {
            "id": report.run_id,
            "folder": str(report.folder),
            "check": report.check,
            "interrupted": report.interrupted,
            "started": report.started,
            "duration_s": report.duration_s,
        },
        "hosts": [host_document(host) for host in report.hosts],
        "summary": {status.value: counts[status] for status in Status},
        "exit_code": int(report.exit_code),
    }


def host_document(host: HostResult) -> dict[str, Any]:
    """`changed` counts tasks. A problem is a setting that the node refused; a notice fails nothing."""
    failure = host.failure
    return {
        "name": host.name,
        "address": host.address,
        "status": host.status.value,
        "tasks": host.tasks,
        "changed": len(host.changes),
        "changes": [
            {"role": change.role, "task": change.task, "target": change.target, "diff": change.diff}
            for change in host.changes
        ],
        "problems": [dict(problem) for problem in host.problems],
        "notices": [dict(notice) for notice in host.notices],
        "failure": {"role": failure.role, "task": failure.task, "message": failure.message} if failure else None,
        "unreachable": host.unreachable,
    }
