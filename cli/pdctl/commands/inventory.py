"""`pdctl inventory`: what Ansible, and so every command of pdctl, reads from an inventory, and what is wrong with it."""

from pathlib import Path
from typing import Any

import typer

from pdctl.errors import UsageError
from pdctl.render.formats import Format

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Look at an inventory, and find its nodes' GPUs and NICs."
)


@app.callback()
def _inventory() -> None:
    pass


@app.command("show")
def show(
    inventory: Path = typer.Argument(..., metavar="INVENTORY", help="INI or YAML inventory, or a folder of them."),
    limit: str | None = typer.Option(None, "--limit", "-l", help="Only hosts that this Ansible pattern selects."),
    output: Format = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """List hosts with address, login, GPU kind, groups. Nothing is connected to."""
    import json

    from pdctl.inventory import load_inventory
    from pdctl.render.columns import columns

    loaded = load_inventory(inventory, limit=limit)
    for warning in loaded.warnings:
        typer.echo(f"warning: {warning}", err=True)
    hosts = [_row(host) for host in loaded]
    if output is Format.JSON:
        document = {"schema": "pdctl.inventory/1", "hosts": hosts}
        typer.echo(json.dumps(document, ensure_ascii=False, indent=2))
        return
    rows: list[tuple[str, ...]] = [("host", "address", "port", "user", "gpu kind", "groups")]
    for host in hosts:
        cells = (host["name"], host["address"], host["port"], host["user"], host["gpu_kind"], ",".join(host["groups"]))
        rows.append(tuple("-" if cell in (None, "") else str(cell) for cell in cells))
    typer.echo("\n".join(columns(rows)))


@app.command("validate")
def validate(
    inventory: Path = typer.Argument(..., metavar="INVENTORY", help="INI or YAML inventory, or a folder of them."),
    limit: str | None = typer.Option(None, "--limit", "-l", help="Only hosts that this Ansible pattern selects."),
    extra_vars: list[str] = typer.Option([], "-e", "--extra-vars", help="key=value, JSON, or @file."),
    live: bool = typer.Option(False, "--live", help="Also look at the nodes over SSH; nothing is touched."),
    forks: int | None = typer.Option(None, "--forks", "-f", min=1, help="Hosts at once; default from the cores."),
    timeout: int = typer.Option(15, "--timeout", "-T", min=1, help="Seconds for one SSH connection attempt."),
    become: bool = typer.Option(False, "--become", "-b", help="Become root on the nodes with sudo."),
    ask_become_pass: bool = typer.Option(False, "--ask-become-pass", "-K", help="Ask for the sudo password."),
    output: Format = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """Say what is wrong with it; --live asks its nodes.

    It judges as `provision` does, and with --live compares each declared GPU kind with the node.
    Exit codes: 0 nothing, 1 nodes that are not fit, 2 the inventory is wrong, 3 nodes not reached.
    """
    import json
    from dataclasses import replace

    from pdctl.asking import become_password
    from pdctl.discovering import compare_kinds
    from pdctl.exit_codes import ExitCode
    from pdctl.inventory import read_inventory
    from pdctl.inventory_judgement import judge, without_gpu_kind
    from pdctl.provisioning.fitness import exit_code, fitness, with_kinds
    from pdctl.provisioning.options import Options, default_forks
    from pdctl.provisioning.runner import extra_variables
    from pdctl.render.inventory import document, lines

    password = become_password() if ask_become_pass else None
    loaded = read_inventory(inventory, limit=limit, variables=extra_variables(tuple(extra_vars)))
    judgement = judge(loaded)
    judgement = judgement._replace(warnings=(*judgement.warnings, *without_gpu_kind(loaded)))
    looks = None
    code = ExitCode.USAGE if judgement.faults else ExitCode.DONE
    if live and not judgement.faults:
        options = Options(
            inventory=inventory,
            playbook=Path(),
            limit=limit,
            extra_vars=tuple(extra_vars),
            forks=forks or default_forks(),
            connect_timeout_s=timeout,
            become=become or ask_become_pass,
            become_password=password,
        )
        looks, interrupted = fitness(loaded, options)
        fit = {look.host for look in looks if look.fit and not interrupted}
        answering = replace(loaded, hosts=tuple(host for host in loaded if host.name in fit))
        kinds = compare_kinds(answering, connect_s=float(timeout), sudo=password)
        looks = with_kinds(looks, kinds.wrong)
        untold = (f"the `gpu_kind` of `{host}` was not compared: {why}" for host, why in kinds.untold.items())
        judgement = judgement._replace(warnings=(*judgement.warnings, *untold))
        code = exit_code(looks, interrupted=interrupted)
    if output is Format.JSON:
        typer.echo(json.dumps(document(loaded, judgement, looks, code), ensure_ascii=False, indent=2))
    else:
        typer.echo("\n".join(lines(loaded, judgement, looks)))
    raise typer.Exit(code)


@app.command("discover")
def discover(
    inventory: Path = typer.Argument(..., metavar="INVENTORY", help="INI or YAML inventory, or a folder of them."),
    limit: str | None = typer.Option(None, "--limit", "-l", help="Only hosts that this Ansible pattern selects."),
    policy: Path | None = typer.Option(
        None, "--policy", help="Site policy instead of `policy.yml` beside the inventory."
    ),
    connect_timeout: float = typer.Option(
        15, "--connect-timeout", min=1, help="Seconds for one SSH connection attempt."
    ),
    timeout: float = typer.Option(120, "--timeout", min=5, help="Seconds for one node, all in all."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Write without asking."),
    output: Format = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """Write what the nodes have: GPUs, RDMA ports.

    They are asked, and what is new goes to host_vars beside the inventory. The change is shown and asked about
    first. A declared value is never overwritten: where the node has another, both are named. Exit codes: 0 done, 1
    a node contradicts the inventory, 2 usage, 3 nodes not reached.
    """
    import json

    from pdctl.discovering import discovery, exit_code
    from pdctl.host_vars import NotWritable, write
    from pdctl.inventory import load_inventory
    from pdctl.render.discovery import document, lines

    hosts = load_inventory(inventory, limit=limit)
    found = discovery(hosts, policy, connect_s=connect_timeout, deadline_s=timeout)
    code = exit_code(found)
    edits = [each.edit for each in found if each.edit]
    people = output is Format.TABLE
    if people:
        typer.echo("\n".join(lines(found)))
    written = bool(edits) and _agreed(len(edits), yes=yes, people=people)
    if written:
        try:
            write(edits)
        except NotWritable as error:
            raise UsageError("the host variables were not all written", detail=str(error)) from None
    if not people:
        typer.echo(json.dumps(document(found, written=written, code=code), ensure_ascii=False, indent=2))
    raise typer.Exit(code)


def _agreed(files: int, *, yes: bool, people: bool) -> bool:
    """Whether to write. A machine that did not say `--yes` only wanted to know."""
    import sys

    from pdctl.asking import has_terminal

    if yes or not people:
        return yes
    if not has_terminal():
        raise UsageError(
            "nothing was written: there is no terminal to ask on", hint="look at the change, then give `--yes`"
        )
    typer.echo(f"Write {files} file{'s' if files != 1 else ''}? [y/N] ", err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _row(host: Any) -> dict[str, Any]:
    """Not all variables: some are secrets."""
    return {
        "name": host.name,
        "address": host.address,
        "port": host.port,
        "user": host.user,
        "connection": host.connection,
        "groups": list(host.groups),
        "gpu_kind": host.variables.get("gpu_kind"),
        "simulated": host.simulated,
    }
