"""`pdctl collect`: look at nodes as the doctor does, and keep what was seen in one file."""

from pathlib import Path

import typer

from pdctl.errors import UsageError
from pdctl.exit_codes import ExitCode


def collect(
    inventory: Path | None = typer.Argument(None, metavar="INVENTORY", help="Look at its nodes, over SSH."),
    inventory_option: Path | None = typer.Option(None, "-i", "--inventory", help="The same, as an option."),
    to: Path = typer.Option(..., "--to", metavar="FILE", help="New bundle: FILE.tar.zst, .tar.gz or .tar."),
    source: list[str] = typer.Option(
        [], "--from", help="Evidence FILE, DIR or TAR instead of a live look, to keep it anew; `-` is stdin."
    ),
    limit: str | None = typer.Option(None, "--limit", "-l", help="Only hosts that this Ansible pattern selects."),
    redact: bool = typer.Option(
        False, "--redact", help="Replace names, addresses, serials and secrets, the same everywhere."
    ),
    policy: Path | None = typer.Option(
        None, "--policy", help="Site policy instead of `policy.yml` beside the inventory."
    ),
    connect_timeout: float = typer.Option(
        15, "--connect-timeout", min=1, help="Seconds for one SSH connection attempt."
    ),
    timeout: float = typer.Option(
        120,
        "--timeout",
        min=5,
        help="Seconds for one node, all in all; more than 120 lets a slow node's commands run longer too.",
    ),
    interval: int = typer.Option(10, "--interval", min=0, max=60, help="Seconds between two readings of counters."),
) -> None:
    """Collect evidence from nodes into one file for `pdctl doctor --from`.

    Without INVENTORY it looks at this host. Exit codes: 0 all nodes collected, 3 some not or not whole, 2 usage.
    """
    if inventory and inventory_option:
        raise UsageError("give one inventory", hint="`pdctl collect INVENTORY` or `pdctl collect -i INVENTORY`")
    chosen = inventory or inventory_option
    if chosen and source:
        raise UsageError("`--from` reads collected evidence and INVENTORY looks at live nodes", hint="give one of them")
    if limit is not None and chosen is None:
        raise UsageError("`--limit` chooses among the hosts of an INVENTORY", hint="give one, or leave `--limit` out")

    import time
    from secrets import token_bytes

    from pdchecks.redaction.redactor import Redactor
    from pdctl import bundle, collection
    from pdctl.evidence_source import Source, read_sources
    from pdctl.inventory import load_inventory
    from pdctl.policy_source import policy_for, site_values

    # A look takes minutes: what would keep its bundle from being written is told before.
    bundle.refuse(to)
    hosts = load_inventory(chosen, limit=limit) if chosen else None
    kept = read_sources(source) if source else Source()
    policy_of = policy_for(hosts, policy, kept.policy)
    began = time.monotonic()
    if source:
        nodes = collection.from_source(kept)
    else:
        nodes = collection.collect(hosts, policy_of, connect_s=connect_timeout, deadline_s=timeout, interval_s=interval)
    bundle.write(
        to,
        nodes,
        lambda node: site_values(policy_of(node)),
        interval_s=interval,
        seconds=time.monotonic() - began,
        redactor=Redactor(token_bytes(32)) if redact else None,
    )
    missing = [node.incomplete for node in nodes if node.incomplete]
    for node, reason, hint in missing:
        typer.echo(f"{node}: {reason}" + (f"\n  hint: {hint}" if hint else ""), err=True)
    typer.echo(f"{to}: {len(nodes) - len(missing)} of {len(nodes)} nodes collected", err=True)
    raise typer.Exit(int(ExitCode.INCOMPLETE if missing else ExitCode.DONE))
