"""`pdctl runs`: what provisioning did, from the records on this machine."""

from typing import TYPE_CHECKING, Any

import typer

from pdctl.errors import UsageError
from pdctl.exit_codes import ExitCode
from pdctl.render.formats import Format

if TYPE_CHECKING:
    from pdctl.provisioning.outcome import HostResult
    from pdctl.provisioning.runs import Results, Run

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="What provisioning did: list, show, diff.")

_RUN = typer.Argument(..., metavar="RUN", help="The id of a run, the beginning of one, or `last`.")
_HOST = typer.Option([], "--host", help="Only this host; may be given several times.")
_OUTPUT = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout.")


@app.command("list")
def list_(output: Format = _OUTPUT) -> None:
    """List the recorded runs, the newest first: when (in the id, UTC), how it ended, hosts by status."""
    from pdctl.provisioning.runs import all_runs
    from pdctl.provisioning.runs_document import list_document
    from pdctl.provisioning.runs_text import list_text

    runs = all_runs()
    _print(list_document(runs) if output is Format.JSON else list_text(runs))


@app.command("show")
def show(run: str = _RUN, host: list[str] = _HOST, output: Format = _OUTPUT) -> None:
    """Show one run: who, when, options, and how each host ended. Exit code 3 when a part of the record is not readable."""
    from pdctl.provisioning.runs_document import run_document
    from pdctl.provisioning.runs_text import show_text

    found, results, hosts = _read(run, host)
    json = output is Format.JSON
    _print(run_document(found, results, hosts) if json else show_text(found, results, hosts))
    _end(results)


@app.command("diff")
def diff(run: str = _RUN, host: list[str] = _HOST, output: Format = _OUTPUT) -> None:
    """Show what one run changed on each host, or with --check would have. Exit codes as of `show`."""
    from pdctl.provisioning.runs_document import run_document
    from pdctl.provisioning.runs_text import diff_text

    found, results, hosts = _read(run, host)
    _print(run_document(found, results, hosts) if output is Format.JSON else diff_text(results, hosts))
    _end(results)


def _read(asked: str, only: list[str]) -> "tuple[Run, Results, list[HostResult]]":
    from pdctl.provisioning.runs import find_run, results

    run = find_run(asked)
    if strangers := sorted(set(only) - set(run.hosts)):
        known = ", ".join(list(run.hosts)[:20])
        raise UsageError(
            f"run {run.id} was not about {', '.join(strangers)}", hint=f"its hosts: {known or 'not known'}"
        )
    read = results(run)
    return run, read, [host for host in read.hosts if not only or host.name in only]


def _print(content: dict[str, Any] | str) -> None:
    import json

    typer.echo(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2))


def _end(results: "Results") -> None:
    if results.faults:
        raise typer.Exit(int(ExitCode.INCOMPLETE))
