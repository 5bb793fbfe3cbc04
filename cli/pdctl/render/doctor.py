"""The doctor's formats: one function each, in one table."""

import json
from collections.abc import Callable, Iterable

from pdchecks.finding import Status
from pdchecks.report import Report, report_document
from pdctl.diagnosis import exit_code
from pdctl.render.formats import ReportFormat


def _json(report: Report, fail_on: Status) -> str:
    return json.dumps(report_document(report), ensure_ascii=False, indent=2)


def _junit(report: Report, fail_on: Status) -> str:
    from pdctl.render import junit

    return junit.render(report, fail_on)


def _nagios(report: Report, fail_on: Status) -> str:
    from pdctl.render import nagios

    return nagios.render(report, fail_on)


def _prom(report: Report, fail_on: Status) -> str:
    from pdctl.render import prom

    return prom.render(report)


# The table is for people, and goes through the terminal's own printing.
MACHINE: dict[ReportFormat, Callable[[Report, Status], str]] = {
    ReportFormat.JSON: _json,
    ReportFormat.JUNIT: _junit,
    ReportFormat.NAGIOS: _nagios,
    ReportFormat.PROM: _prom,
}


def text(report: Report, output: ReportFormat, fail_on: Status) -> str:
    """The report in a machine's format."""
    return MACHINE[output](report, fail_on)


def show(report: Report, *, verbose: bool) -> None:
    """The report as a table."""
    from pdctl.render.findings import render

    print_lines(lambda width: render(report, verbose=verbose, width=width))


def print_lines(made: Callable[[int], Iterable[tuple[str, str]]]) -> None:
    """(line, style) on stdout, in colour where that is a terminal. made: is told the width in columns."""
    import shutil

    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    width = max(60, min(120, shutil.get_terminal_size((110, 24)).columns))
    for line, style in made(width):
        console.print(Text(line, style=style))


def exit_status(report: Report, output: ReportFormat, fail_on: Status) -> int:
    """pdctl's exit code, or a plugin's where the format is Nagios'."""
    if output is ReportFormat.NAGIOS:
        from pdctl.render.nagios import state

        return state(report, fail_on)
    return exit_code(report.counted, report.incomplete, fail_on, judged=bool(report.findings))
