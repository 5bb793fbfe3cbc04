"""`pdctl policy`: the expected values and where each comes from; and what switches need of them."""

from enum import StrEnum
from pathlib import Path

import typer

from pdctl.errors import UsageError
from pdctl.render.formats import Format

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The expected values of a node.")


class Language(StrEnum):
    SONIC = "sonic"
    NVUE = "nvue"
    TEXT = "text"


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
    """Show the policy, key by key.

    With an inventory, each node's own values where nodes differ.
    """
    import json

    from pdctl.inventory import load_inventory
    from pdctl.policy_rows import rows
    from pdctl.policy_source import VARIABLE, policy_for, tell_unread_keys
    from pdctl.render.columns import columns
    from pdctl.variable_origin import origins

    if limit and inventory is None:
        raise UsageError("`--limit` selects hosts of an inventory", hint="give one with `-i`")
    hosts = load_inventory(inventory, limit=limit) if inventory else None
    tell_unread_keys(hosts, policy)
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


@app.command("export")
def export(
    switch: Language = typer.Option(..., "--switch", help="In whose words: SONiC's config_db, NVUE, or a person's."),
    port: list[str] = typer.Option([], "--port", help="A port of the switch, as it calls it; may be given often."),
    inventory: Path | None = typer.Option(None, "-i", "--inventory", help="Nodes whose policy it is."),
    limit: str | None = typer.Option(None, "--limit", "-l", help="Only hosts that this Ansible pattern selects."),
    policy: Path | None = typer.Option(
        None, "--policy", help="Site policy instead of `policy.yml` beside the inventory."
    ),
) -> None:
    """Print the switches' side of the policy.

    MTU, classes by DSCP, PFC, ECN thresholds, watchdog. What it leaves open is said on stderr. pdctl never logs in
    to a switch: apply it as you apply your other changes.
    """
    from pdctl.inventory import load_inventory
    from pdctl.policy_source import policy_for
    from pdctl.switches import LANGUAGES
    from pdctl.switches.settings import of_one_fabric, switch_side

    if limit and inventory is None:
        raise UsageError("`--limit` selects hosts of an inventory", hint="give one with `-i`")
    hosts = load_inventory(inventory, limit=limit) if inventory else None
    of = policy_for(hosts, policy)
    names = [host.name for host in hosts] if hosts else [""]
    try:
        side = of_one_fabric({name: switch_side(of(name).values) for name in names})
    except ValueError as error:
        raise UsageError(
            "the policy cannot be told to a switch",
            detail=str(error),
            hint="`pdctl policy show fabric --origin` says who set a key; `--limit` chooses the nodes of one fabric",
        ) from None
    said = LANGUAGES[switch](side, _ports(port))
    for note in said.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(said.text)


def _ports(given: list[str]) -> list[str]:
    """Each once. What is printed is pasted into a shell of the switch."""
    import re

    names = list(dict.fromkeys(name for each in given for name in each.split(",") if name))
    if odd := [name for name in names if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/:-]*", name)]:
        raise UsageError(
            f"`--port {odd[0]}` is no name of a port", hint="as the switch calls it: Ethernet0, swp1, swp1-4, 1/1"
        )
    return names
