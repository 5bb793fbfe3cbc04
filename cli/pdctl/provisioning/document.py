"""The JSON form of a report: `pdctl.provision/1`, described by provision.schema.json beside this file. Both ways for a host."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pdctl.provisioning.outcome import Change, Failure, HostResult, Status

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
            "stopped": report.stopped,
            "started": report.started,
            "duration_s": report.duration_s,
            "verify_s": report.verify_s,
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
            {
                "role": change.role,
                "task": change.task,
                "target": change.target,
                "impact": change.impact,
                "diff": change.diff,
            }
            for change in host.changes
        ],
        "problems": [dict(problem) for problem in host.problems],
        "notices": [dict(notice) for notice in host.notices],
        "failure": {"role": failure.role, "task": failure.task, "message": failure.message} if failure else None,
        "unreachable": host.unreachable,
        "held_by": host.held_by,
        "unverified": host.unverified,
        "settled": host.settled,
        "touched": host.touched,
        "engines": list(host.engines),
    }


def host_result(document: Mapping[str, Any]) -> HostResult:
    """What `host_document` made the document from.

    Raises:
        ValueError: it is no such document.
    """
    try:
        failure = document["failure"]
        result = HostResult(
            name=str(document["name"]),
            address=str(document["address"]),
            tasks=int(document["tasks"]),
            changes=[_change(change) for change in document["changes"]],
            problems=[_mapping(problem) for problem in document["problems"]],
            notices=[_mapping(notice) for notice in document["notices"]],
            failure=Failure(*(str(failure[key]) for key in ("role", "task", "message"))) if failure else None,
            unreachable=None if document["unreachable"] is None else str(document["unreachable"]),
            finished=document["status"] not in (Status.INCOMPLETE, Status.UNTOUCHED),
            unverified=None if document.get("unverified") is None else str(document["unverified"]),
            settled=document.get("settled") is True,
            touched=document.get("touched") is not False,
            held_by=None if document.get("held_by") is None else str(document["held_by"]),
            engines=tuple(map(str, document.get("engines", ()))),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the result of a host: {type(error).__name__}: {error}") from None
    if result.status != document["status"]:
        raise ValueError(f"says {document['status']!r} where the rest of it means {result.status.value!r}")
    return result


def _change(document: Mapping[str, Any]) -> Change:
    target = document["target"]
    diff = [_mapping(part) for part in document["diff"]]
    impact = document.get("impact")
    return Change(
        role=str(document["role"]),
        task=str(document["task"]),
        target=None if target is None else str(target),
        impact=None if impact is None else str(impact),
        diff=diff,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{type(value).__name__} in place of a mapping")
    return value
