"""`pdctl policy show`: the expected values, and where each comes from."""

from pathlib import Path

import typer

from pdctl.errors import UsageError
from pdctl.render.formats import Format

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The expected values of a node.")


@app.callback()
def _policy() -> None:
    pass


@app.command("show")
def show(
    key: str = typer.Argument("", metavar="[KEY]", help="Only keys that begin so, e.g. `fabric.mtu`."),
    inventory: Path | None = typer.Option(None, "-i", "--inventory", help="Nodes whose policy to show."),
    limit: str | None = typer.Option(None, "--limit", "-l", help="Only hosts that this Ansible pattern selects."),
    policy: Path | None = typer.Option(
        None, "--policy", help="Site policy instead of `policy.yml` beside the inventory."
    ),
    origin: bool = typer.Option(False, "--origin", help="Say who sets each key: default, site, group or host."),
    output: Format = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """Show the policy, key by key; with an inventory a node's own values where nodes differ."""
    import json

    from pdctl.inventory import load_inventory
    from pdctl.policy_rows import rows
    from pdctl.policy_source import VARIABLE, policy_for
    from pdctl.render.columns import columns
    from pdctl.variable_origin import origins

    if limit and inventory is None:
        raise UsageError("`--limit` selects hosts of an inventory", hint="give one with `-i`")
    hosts = load_inventory(inventory, limit=limit) if inventory else None
    of = policy_for(hosts, policy, origins=origins(hosts, VARIABLE) if hosts else None)
    policies = {host.name: of(host.name) for host in hosts} if hosts else {"": of("")}
    found = [row for row in rows(policies) if row.key.startswith(key)]
    if not found:
        raise UsageError(f"no policy key begins with `{key}`", hint="`pdctl policy show` prints them all")
    if output is Format.JSON:
        record = [{"key": r.key, "value": r.value, "origin": r.origin, "node": r.node or None} for r in found]
        typer.echo(json.dumps({"schema": "pdctl.policy/1", "values": record}, ensure_ascii=False, indent=2))
        return
    per_node = any(row.node for row in found)
    lines = [
        [
            row.key,
            json.dumps(row.value, ensure_ascii=False),
            *([row.node or "all nodes"] if per_node else []),
            row.origin,
        ]
        for row in found
    ]
    for line in columns([cells if origin else cells[:-1] for cells in lines]):
        typer.echo(line)
