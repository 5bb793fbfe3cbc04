"""The status document as a table for people."""

from typing import Any

_COLUMNS = ("role", "pid", "state", "uptime", "restarts", "gpu_kind", "device", "endpoint")


def table(document: dict[str, Any]) -> str:
    head = f"deployment `{document['name']}`: {document['phase']}"
    if document["reason"]:
        head += f" ({document['reason']})"
    if not document["units"]:
        return head
    lines = [head, f"  endpoint  {document['endpoint']}   model {document['model']}   {document['dtype']}"]
    canary = document["canary"]
    if canary is None:
        lines.append("  canary    not asked yet")
    else:
        verdict = "passed" if canary["passed"] else f"failed: {canary['reason']}"
        lines.append(
            f"  canary    {verdict} at {canary['at']}, {canary['tokens']} tokens and {canary['kv_bytes']} bytes crossed"
        )
    rows = [_COLUMNS, *(_row(unit) for unit in document["units"])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    lines += [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines += [f"  {unit['role']}: {unit['reason']}" for unit in document["units"] if unit["reason"]]
    for role, words in document.get("last_log_lines", {}).items():
        lines += [f"  last lines of the {role} log:", *(f"    {line}" for line in words)]
    return "\n".join(lines)


def _row(unit: dict[str, Any]) -> tuple[str, ...]:
    return (
        unit["role"],
        str(unit["pid"] or "-"),
        unit["state"],
        _duration(unit["uptime_s"]),
        str(unit["restarts"]),
        unit["gpu_kind"],
        unit["device"],
        unit["endpoint"],
    )


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{whole % 60:02}s"
