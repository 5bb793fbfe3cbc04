"""`pdctl runs`: what provisioning did, from the records on this machine; and the way back."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pdctl.asking import become_password
from pdctl.commands.provision import BREAK_LOCK, WHILE_SERVING, converge
from pdctl.errors import UsageError
from pdctl.exit_codes import ExitCode
from pdctl.render.formats import Format

if TYPE_CHECKING:
    from pdctl.provisioning.outcome import HostResult
    from pdctl.provisioning.runs import Results, Run

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="What provisioning did, and the way back.")

_RUN = typer.Argument(..., metavar="RUN", help="The id of a run, the beginning of one, or `last`.")
_HOST = typer.Option([], "--host", help="Only this host; may be given several times.")
_OUTPUT = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout.")


@app.command("list")
def list_(output: Format = _OUTPUT) -> None:
    """List the recorded runs, the newest first.

    The id says when (UTC); then how it ended, and its hosts by status.
    """
    from pdctl.provisioning.runs import all_runs
    from pdctl.provisioning.runs_document import list_document
    from pdctl.provisioning.runs_text import list_text

    runs = all_runs()
    _print(list_document(runs) if output is Format.JSON else list_text(runs))


@app.command("show")
def show(run: str = _RUN, host: list[str] = _HOST, output: Format = _OUTPUT) -> None:
    """Show one run: who, when, options, each host.

    Each host with its status, changes, refusals and failure. Exit code 3 when a part of the record is not readable.
    """
    from pdctl.provisioning.runs_document import run_document
    from pdctl.provisioning.runs_text import show_text

    found, results, hosts = _read(run, host)
    json = output is Format.JSON
    _print(run_document(found, results, hosts) if json else show_text(found, results, hosts))
    _end(results)


@app.command("diff")
def diff(run: str = _RUN, host: list[str] = _HOST, output: Format = _OUTPUT) -> None:
    """Show what one run changed, as diffs.

    Of a run with --check, what it would have changed. Exit codes as of `show`.
    """
    from pdctl.provisioning.runs_document import run_document
    from pdctl.provisioning.runs_text import diff_text

    found, results, hosts = _read(run, host)
    _print(run_document(found, results, hosts) if output is Format.JSON else diff_text(results, hosts))
    _end(results)


@app.command("rollback")
def rollback(
    run: str = typer.Argument(..., metavar="RUN", help="As of `show`; `last`: the newest that changed a node."),
    inventory: Path | None = typer.Option(None, "-i", "--inventory", help="Default: the one that the run had."),
    check: bool = typer.Option(False, "--check", "-C", help="Touch nothing; show what comes back, and what cannot."),
    diff: bool = typer.Option(False, "--diff", "-D", help="Show each file and value as it is and as it will be."),
    limit: str | None = typer.Option(
        None, "--limit", "-l", help="Only these hosts; default: all that the run reached."
    ),
    force: bool = typer.Option(False, "--force", help="Also where something was changed again since the run."),
    forks: int | None = typer.Option(None, "--forks", "-f", min=1, help="Hosts at once; default from the cores."),
    timeout: int = typer.Option(15, "--timeout", "-T", min=1, help="Seconds for one SSH connection attempt."),
    become: bool = typer.Option(False, "--become", "-b", help="Become root with sudo; default as the run did."),
    ask_become_pass: bool = typer.Option(False, "--ask-become-pass", "-K", help="Ask for the sudo password."),
    break_lock: bool = BREAK_LOCK,
    while_serving: bool = WHILE_SERVING,
    output: Format = _OUTPUT,
) -> None:
    """Put back what a run changed on its nodes.

    Files, units and live values come back exactly as they were. Packages stay, and are named. A second rollback changes nothing.
    What can cut a node off goes back first, and the node undoes it by itself unless it is reached again.
    Exit codes as of `provision`; 5 also where something was changed again since the run, and so
    nothing of that node was touched.
    """
    from pdctl.content import content_root
    from pdctl.provisioning.backup import (
        ROLLBACK,
        limit_of,
        newest_to_roll_back,
        record_of,
        refuse_without_a_way_back,
        variables_of_a_way_back,
    )
    from pdctl.provisioning.options import Options, default_forks
    from pdctl.provisioning.runs import all_runs, find_run

    if run == "last":
        run = newest_to_roll_back(all_runs()).id
        typer.echo(f"the last run that may have changed a node is {run}", err=True)
    identity, record = record_of(run, find_run, without_record=inventory is not None)
    recorded = record.options if record else {}
    if record:
        refuse_without_a_way_back(record)
    if inventory is None and not isinstance(recorded.get("inventory"), str):
        raise UsageError(f"the record of run {identity} names no inventory", hint="give it: `-i INVENTORY`")
    options = Options(
        inventory=inventory or Path(str(recorded["inventory"])),
        playbook=content_root() / "playbooks" / "rollback.yml",
        check=check,
        # The list of what comes back is its diff.
        diff=diff or check,
        limit=limit or (limit_of(record) if record else None),
        forks=forks or default_forks(),
        connect_timeout_s=timeout,
        become=become or ask_become_pass or bool(recorded.get("become")),
        become_password=become_password() if ask_become_pass else None,
        break_lock=break_lock,
        while_serving=while_serving,
        command=ROLLBACK,
        variables=variables_of_a_way_back(identity, record, force=force),
    )
    raise typer.Exit(converge(options, output))


@app.command("resume")
def resume(
    run: str | None = typer.Argument(None, metavar="RUN", help="As of `show`. Default: the newest that is no check."),
    extra_vars: list[str] = typer.Option([], "-e", "--extra-vars", help="The same as the run had: no record has them."),
    forks: int | None = typer.Option(None, "--forks", "-f", min=1, help="Hosts at once; default as the run had."),
    timeout: int | None = typer.Option(None, "--timeout", "-T", min=1, help="Seconds for one SSH connection attempt."),
    become: bool = typer.Option(False, "--become", "-b", help="Become root with sudo; default as the run did."),
    ask_become_pass: bool = typer.Option(False, "--ask-become-pass", "-K", help="Ask for the sudo password."),
    break_lock: bool = BREAK_LOCK,
    while_serving: bool = WHILE_SERVING,
    output: Format = _OUTPUT,
) -> None:
    """Go on with a run that did not end well.

    One that was cut off, interrupted, failed or lost nodes goes on with the hosts that are not done. It stays the
    same run: its backups are from before its first try. Where inventory, policy, roles or `-e` are not as they were
    it touches nothing (exit code 2). Else exit codes as of `provision`; 0 where nothing is left to do.
    """
    from pdctl.provisioning.resume import options_of, resumed, run_to_resume

    found = run_to_resume(run)
    state = resumed(found)
    if state is None:
        typer.echo(f"run {found.id} is done on each of its {len(found.hosts)} host(s): nothing is left to do", err=True)
        return
    options = options_of(
        found,
        extra_vars=extra_vars,
        forks=forks,
        connect_timeout_s=timeout,
        become=become or ask_become_pass,
        become_password=become_password() if ask_become_pass else None,
        break_lock=break_lock,
        while_serving=while_serving,
    )
    raise typer.Exit(converge(options, output, resumed=state))


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

    from pdctl.printable import printable

    typer.echo(printable(content) if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2))


def _end(results: "Results") -> None:
    if results.faults:
        raise typer.Exit(int(ExitCode.INCOMPLETE))
