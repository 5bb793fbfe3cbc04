"""Findings for people: what, why, do this. Worst first, readable without colour."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from pdchecks.finding import Finding, Remedy, Status

_STYLE = {Status.FAIL: "bold red", Status.WARN: "yellow", Status.UNKNOWN: "magenta", Status.INFO: "cyan"}
_QUIET = (Status.PASS,)


def render(
    findings: Sequence[Finding], incomplete: Sequence[tuple[str, str]], *, verbose: bool, width: int
) -> list[tuple[str, str]]:
    """(line, style) of the whole report. incomplete: node and reason, of nodes that could not be looked at."""
    lines: list[tuple[str, str]] = []
    for node, reason in incomplete:
        lines += [(f"NOT REACHED  {node}: {reason}", "bold red"), ("", "")]
    for finding in findings:
        if verbose or finding.status not in _QUIET:
            lines += list(_finding(finding, verbose, width))
    lines.append((_summary(findings, incomplete, verbose), ""))
    return lines


def _finding(finding: Finding, verbose: bool, width: int) -> Iterator[tuple[str, str]]:
    head = f"{finding.status.value.upper():<7} {finding.check}  {finding.subject}"
    yield head, _STYLE.get(finding.status, "")
    yield from _block("", finding.summary, width)
    short = finding.status in (Status.PASS, Status.INFO) and not verbose
    if finding.cause and not short:
        yield from _block("why", finding.cause, width)
    if not short:
        for quote in finding.evidence[: 8 if verbose else 3]:
            for line in quote.text.splitlines()[: 6 if verbose else 2]:
                yield from _block("seen", f"{line.strip()}  [{quote.command}]", width)
    if finding.status in (Status.FAIL, Status.WARN, Status.UNKNOWN):
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


def _block(label: str, text: str, width: int) -> Iterator[tuple[str, str]]:
    indent = " " * 8
    first = f"{indent}{label:<7} " if label else f"{indent}{'':8}"
    wrapped = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=f"{indent}{'':8}",
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in wrapped or [first.rstrip()]:
        yield line, ""


def _summary(findings: Sequence[Finding], incomplete: Sequence[tuple[str, str]], verbose: bool) -> str:
    counts = Counter(finding.status for finding in findings)
    parts = [f"{counts[status]} {status.value}" for status in reversed(Status) if counts[status]]
    if incomplete:
        parts.insert(0, f"{len(incomplete)} not reached")
    hint = "" if verbose or not counts[Status.PASS] else " (-v shows the passes)"
    return (", ".join(parts) or "nothing to judge in what was read") + hint
