"""Findings for people: what, why, do this. Worst first, readable without colour."""

from collections import Counter
from collections.abc import Iterator

from pdchecks.finding import Finding, Remedy, Status
from pdchecks.ranking import Group
from pdchecks.report import Report
from pdctl.render.block import block as _block
from pdctl.render.symptom import render_symptom

_STYLE = {Status.FAIL: "bold red", Status.WARN: "yellow", Status.UNKNOWN: "magenta", Status.INFO: "cyan"}
_QUIET = (Status.PASS,)
_STEP = "    "


def render(report: Report, *, verbose: bool, width: int) -> list[tuple[str, str]]:
    """(line, style) of the whole report: root causes first, the likeliest on top, what they explain indented below."""
    lines: list[tuple[str, str]] = []
    for entry in report.incomplete:
        lines += [(f"INCOMPLETE  {entry.node}: {entry.reason}", "bold red")]
        lines += [*(_block("fix", entry.hint, width) if entry.hint else ()), ("", "")]
    for explored in report.explored:
        lines += list(render_symptom(explored, width))
    for group in report.groups:
        lines += list(_group(group, verbose, width))
    for use in report.waivers:
        if use.expired:
            waiver = use.waiver
            said = f"EXPIRED  the waiver of {waiver.check} for `{waiver.subject}` ended on {waiver.expires} and waives nothing"
            lines += [(f"{said} (it fits {use.matched}): {waiver.reason}", "yellow"), ("", "")]
    lines.append((_summary(report, verbose), ""))
    return lines


def _group(group: Group, verbose: bool, width: int, depth: int = 0) -> Iterator[tuple[str, str]]:
    finding = group.finding
    shown = verbose or (finding.status not in _QUIET and finding.waived is None)
    if finding.waived is not None and not verbose:
        yield f"WAIVED  {finding.check}  {finding.subject}", ""
        until = f"{finding.summary}; waived until {finding.waived.expires}: {finding.waived.reason}"
        yield from _block("", until, width)
        yield "", ""
    elif shown:
        margin = _STEP * depth
        for line, style in _finding(finding, group.why, verbose, width - len(margin)):
            yield (f"{margin}{line}" if line else line), style
    for below in group.explained:
        yield from _group(below, verbose, width, depth + 1)


def _finding(finding: Finding, explained_by: str, verbose: bool, width: int) -> Iterator[tuple[str, str]]:
    head = f"{finding.status.value.upper():<7} {finding.check}  {finding.subject}"
    if finding.waived is not None:
        head += f"  (waived until {finding.waived.expires}: {finding.waived.reason})"
    yield (f"└ {head}" if explained_by else head), _STYLE.get(finding.status, "")
    yield from _block("", finding.summary, width)
    if explained_by:
        yield from _block("follows", f"from the cause above: {explained_by}", width)
    # What a cause explains needs no remedy of its own.
    short = (bool(explained_by) or finding.status in (Status.PASS, Status.INFO)) and not verbose
    if finding.cause and not short:
        yield from _block("why", finding.cause, width)
    if not short:
        for quote in finding.evidence[: 8 if verbose else 3]:
            for line in quote.text.splitlines()[: 6 if verbose else 2]:
                yield from _block("seen", f"{line.strip()}  [{quote.command}]", width)
    if finding.status in (Status.FAIL, Status.WARN, Status.UNKNOWN) and (verbose or not explained_by):
        for command in finding.verify:
            yield _command("verify", command)
        if finding.remedy is not None:
            yield from _remedy(finding.remedy, width)
    yield "", ""


def _remedy(remedy: Remedy, width: int) -> Iterator[tuple[str, str]]:
    lasting = "survives a reboot" if remedy.survives_reboot else "does not survive a reboot"
    yield from _block("fix", f"{remedy.text} ({lasting}; impact: {remedy.impact.value})", width)
    if remedy.role:
        tags = ",".join(remedy.tags or (remedy.role,))
        yield _command("", f"pdctl provision INVENTORY --tags {tags}")
    for command in remedy.commands:
        yield _command("", command)
    for command in remedy.until_reboot:
        yield _command("", f"{command}    # until the next reboot only")


def _command(label: str, command: str) -> tuple[str, str]:
    """In one line, however long: a line break within its quotes would be pasted with it."""
    return f"{' ' * 8}{label:<7} {command}", ""


def _summary(report: Report, verbose: bool) -> str:
    counts = Counter(finding.status for finding in report.counted)
    parts = [f"{counts[status]} {status.value}" for status in reversed(Status) if counts[status]]
    if waived := len(report.findings) - len(report.counted):
        parts.append(f"{waived} waived")
    if report.incomplete:
        parts.insert(0, f"{len(report.incomplete)} incomplete")
    causes = sum(group.finding.fault for group in report.groups)
    faults = sum(finding.fault for finding in report.findings)
    behind = f"; {causes} root cause{'s' if causes != 1 else ''} behind {faults} faults" if causes < faults else ""
    hint = "" if verbose or not counts[Status.PASS] else " (-v shows the passes)"
    return (", ".join(parts) or "nothing to judge in what was read") + behind + hint
