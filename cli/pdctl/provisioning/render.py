"""A report as text: one line a host, then the refusals, failures and notices, and with --diff each change."""

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from pdctl.provisioning.outcome import Change, HostResult, Status
from pdctl.provisioning.run import Report
from pdctl.render.columns import columns


def text(report: Report, *, diff: bool) -> str:
    lines = list(host_table(report.hosts, check=report.check))
    for host in report.hosts:
        lines += host_details(host, diff=diff)
    lines += ["", *([f"stopped: {report.stopped}"] if report.stopped else []), _last_line(report)]
    return "\n".join(lines)


def host_table(hosts: Iterable[HostResult], *, check: bool) -> Iterable[str]:
    would = "would change" if check else "changed"
    rows = [("host", "address", "status", would, "refused")]
    rows += [(h.name, h.address, h.status.value, str(len(h.changes)), str(len(h.problems))) for h in hosts]
    yield from columns(rows)


def host_details(host: HostResult, *, diff: bool) -> list[str]:
    """Empty where there is nothing to say."""
    lines: list[str] = []
    if host.held_by is not None:
        lines += [f"left alone: {host.held_by}"]
    if host.unreachable is not None:
        lines += [f"unreachable: {host.unreachable}"]
    if host.failure is not None and host.status is Status.UNFIT:
        lines += [f"unfit, and not touched: {' '.join(host.failure.message.split())}"]
    elif host.failure is not None:
        lines += [f"failed at `{host.failure.role} : {host.failure.task}`", *host.failure.message.splitlines()]
    lines += [_problem(problem) for problem in host.problems]
    if host.unverified is not None:
        lines += [f"not verified: {host.unverified}"]
    lines += [f"note: {notice['role']}: {notice['key']}: {notice['message']}" for notice in host.notices]
    if diff:
        for change in host.changes:
            lines += [change_line(change), *_diff(change)]
    return ["", f"{host.name}:", *(f"  {line}" for line in lines)] if lines else []


def change_line(change: Change) -> str:
    impact = f" (impact: {change.impact})" if change.impact else ""
    return f"change: {change.role} : {change.task}{impact}"


def _problem(problem: Mapping[str, Any]) -> str:
    asked = f" (wanted {problem['wanted']}" if problem.get("wanted") is not None else ""
    if asked:
        asked += f", live {problem['live']})" if problem.get("live") is not None else ")"
    return f"{problem['outcome']}: {problem['role']}: {problem['key']}{asked}: {problem['message']}"


def _diff(change: Change) -> Iterable[str]:
    for part in change.diff:
        if "prepared" in part:
            yield from str(part["prepared"]).splitlines()
        elif "before" in part or "after" in part:
            before, after = _as_text(part.get("before", "")), _as_text(part.get("after", ""))
            # A template's own header is a temporary file of the controller.
            names = (
                change.target or str(part.get("before_header", "before")),
                change.target or str(part.get("after_header", "after")),
            )
            yield from difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")


def _as_text(side: Any) -> str:
    return side if isinstance(side, str) else json.dumps(side, indent=2, ensure_ascii=False, sort_keys=True)


def _last_line(report: Report) -> str:
    counts = [f"{n} {status.value}" for status in Status if (n := sum(h.status is status for h in report.hosts))]
    how = "interrupted" if report.interrupted else "checked" if report.check else "done"
    return f"{how} in {report.duration_s:.1f} s: {', '.join(counts)}; run {report.run_id}, record {report.folder}"
