"""`pdctl inventory show`: what Ansible, and so every command of pdctl, reads from an inventory."""

from pathlib import Path
from typing import Any

import typer

from pdctl.render.formats import Format

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at an inventory.")


@app.callback()
def _inventory() -> None:
    pass


@app.command("show")
def show(
    inventory: Path = typer.Argument(..., metavar="INVENTORY", help="INI or YAML inventory, or a folder of them."),
    limit: str | None = typer.Option(None, "--limit", "-l", help="Only hosts that this Ansible pattern selects."),
    output: Format = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """List hosts with address, login, groups and GPU kind. Nothing is connected to."""
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
        "simulated": bool(host.variables.get("simulated", False)),
    }
