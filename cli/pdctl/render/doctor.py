"""The doctor's formats: one function each, in one table."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pdchecks.finding import Status
from pdchecks.report import Report, report_document
from pdctl.diagnosis import exit_code
from pdctl.printable import printable
from pdctl.render.formats import ReportFormat


def _junit(report: Report, fail_on: Status) -> str:
    from pdctl.render import junit

    return junit.render(report, fail_on)


def _nagios(report: Report, fail_on: Status) -> str:
    from pdctl.render import nagios

    return nagios.render(report, fail_on)


def _prom(report: Report, fail_on: Status) -> str:
    from pdctl.render import prom

    return prom.render(report)


# The table is for people, and goes through the terminal's own printing; JSON takes more than the report.
MACHINE: dict[ReportFormat, Callable[[Report, Status], str]] = {
    ReportFormat.JUNIT: _junit,
    ReportFormat.NAGIOS: _nagios,
    ReportFormat.PROM: _prom,
}


def put(
    report: Report, output: ReportFormat, fail_on: Status, *, verbose: bool, fix: Mapping[str, Any] | None = None
) -> None:
    """The report on stdout. fix: what was mended, a key of the JSON document."""
    if output is ReportFormat.TABLE:
        show(report, verbose=verbose)
    elif output is ReportFormat.JSON:
        made = report_document(report) | ({"fix": fix} if fix else {})
        print(json.dumps(made, ensure_ascii=False, indent=2))
    else:
        print(MACHINE[output](report, fail_on))


def show(report: Report, *, verbose: bool) -> None:
    """The report as a table."""
    from pdctl.render.findings import render

    print_lines(lambda width: render(report, verbose=verbose, width=width))


def print_lines(made: Callable[[int], Iterable[tuple[str, str]]], *, stderr: bool = False) -> None:
    """(line, style), in colour where they go to a terminal. made: is told the width in columns."""
    import shutil

    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True, stderr=stderr)
    width = max(60, min(120, shutil.get_terminal_size((110, 24)).columns))
    for line, style in made(width):
        console.print(Text(printable(line), style=style))


def exit_status(report: Report, output: ReportFormat, fail_on: Status) -> int:
    """pdctl's exit code, or a plugin's where the format is Nagios'."""
    if output is ReportFormat.NAGIOS:
        from pdctl.render.nagios import state

        return state(report, fail_on)
    return exit_code(report.counted, report.incomplete, fail_on, judged=bool(report.findings))
