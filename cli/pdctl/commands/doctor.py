"""`pdctl doctor`: look (collector or files), judge (pdchecks), print."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdctl.errors import UsageError

if TYPE_CHECKING:
    from pdchecks.evidence import Evidence
    from pdchecks.finding import Finding
    from pdctl.diagnosis import Incomplete


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


class FailOn(StrEnum):
    INFO = "info"
    UNKNOWN = "unknown"
    WARN = "warn"
    FAIL = "fail"


def doctor(
    inventory: Path | None = typer.Argument(None, metavar="INVENTORY", help="Look at its nodes, over SSH."),
    inventory_option: Path | None = typer.Option(None, "-i", "--inventory", help="The same, as an option."),
    source: list[str] = typer.Option(
        [], "--from", help="Evidence FILE, DIR or TAR instead of a live look; `-` is stdin."
    ),
    limit: str | None = typer.Option(None, "--limit", "-l", help="Only hosts that this Ansible pattern selects."),
    select: list[str] = typer.Option([], "--select", help="Only checks whose ID begins so; may be given often."),
    ignore: list[str] = typer.Option([], "--ignore", help="Not the checks whose ID begins so."),
    policy: Path | None = typer.Option(
        None, "--policy", help="Site policy instead of `policy.yml` beside the inventory."
    ),
    fail_on: FailOn = typer.Option(FailOn.FAIL, "--fail-on", help="Exit 1 from this status on."),
    connect_timeout: float = typer.Option(
        15, "--connect-timeout", min=1, help="Seconds for one SSH connection attempt."
    ),
    timeout: float = typer.Option(120, "--timeout", min=5, help="Seconds for one node, all in all."),
    output: Output = typer.Option(Output.TABLE, "-o", "--output", help="Format of stdout."),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="Show passes and all of the evidence."),
) -> None:
    """Say what is wrong with a node, why, and how to fix it.

    Without arguments it looks at this host. Exit codes: 0 nothing at or above --fail-on, 1 findings, 3 nodes not
    reached or nothing but unknown, or nothing judged; 2 usage.
    """
    if inventory and inventory_option:
        raise UsageError("give one inventory", hint="`pdctl doctor INVENTORY` or `pdctl doctor -i INVENTORY`")
    chosen = inventory or inventory_option
    if chosen and source:
        raise UsageError("`--from` reads collected evidence and INVENTORY looks at live nodes", hint="give one of them")

    from pdchecks.finding import Status
    from pdchecks.run import diagnose
    from pdctl.diagnosis import exit_code, look, selected
    from pdctl.inventory import load_inventory
    from pdctl.policy_source import policy_for

    checks = selected(select, ignore)
    hosts = load_inventory(chosen, limit=limit) if chosen else None
    policy_of = policy_for(hosts, policy)
    evidence: Sequence[Evidence]
    incomplete: list[Incomplete] = []
    if source:
        evidence = _read(source)
    else:
        evidence, incomplete = look(hosts, policy_of, connect_s=connect_timeout, deadline_s=timeout)
    findings = diagnose(evidence, policy_of, checks)
    _print(findings, incomplete, output, verbose)
    raise typer.Exit(int(exit_code(findings, incomplete, Status(fail_on.value))))


def _read(source: list[str]) -> "tuple[Evidence, ...]":
    from pdctl.evidence_source import read_sources

    read = read_sources(source)
    for name in read.skipped:
        typer.echo(f"not evidence, not read: {name}", err=True)
    return read.evidence


def _print(findings: "list[Finding]", incomplete: "Sequence[Incomplete]", output: Output, verbose: bool) -> None:
    if output is Output.JSON:
        import json

        from pdchecks.finding import document

        typer.echo(json.dumps(document(findings, incomplete), ensure_ascii=False, indent=2))
        return
    import shutil

    from rich.console import Console
    from rich.text import Text

    from pdctl.render.findings import render

    console = Console(highlight=False, soft_wrap=True)
    width = max(60, min(120, shutil.get_terminal_size((110, 24)).columns))
    for line, style in render(findings, incomplete, verbose=verbose, width=width):
        console.print(Text(line, style=style))
