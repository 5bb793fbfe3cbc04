"""`pdctl lint`: bad advice in runbooks, scripts, playbooks, unit and Compose files."""

from enum import StrEnum
from pathlib import Path

import typer

from pdctl.render.formats import Format


class FailOn(StrEnum):
    WARN = "warn"
    FAIL = "fail"


def lint(
    source: list[str] = typer.Argument(..., metavar="FILE|DIR|-...", help="What to read; `-` is stdin."),
    select: list[str] = typer.Option([], "--select", help="Only rules whose ID begins so; may be given often."),
    ignore: list[str] = typer.Option([], "--ignore", help="Not the rules whose ID begins so."),
    policy: Path | None = typer.Option(None, "--policy", help="Site policy on top of the shipped one."),
    fail_on: FailOn = typer.Option(FailOn.WARN, "--fail-on", help="Exit 1 from this status on."),
    output: Format = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """Flag known-bad settings and commands in texts, each with its source and the right setting.

    Reads shell, YAML, systemd, Docker, environment and Markdown files. A comment, or a sentence that warns against
    something, is no advice. Exit codes: 0 nothing at or above --fail-on, 1 flagged, 2 usage, 3 some file not read.
    """
    import json

    from pdchecks.finding import Status
    from pdchecks.lint.run import lint as judge
    from pdctl.exit_codes import ExitCode, worst
    from pdctl.policy_source import policy_for
    from pdctl.render.lint import document, table
    from pdctl.text_source import read_texts, selected_rules

    rules = selected_rules(select, ignore)
    values = policy_for(site=policy)("")
    read = read_texts(source)
    found = [advice for text in read.texts for advice in judge(text.name, text.content, values, rules)]
    for skipped in read.skipped:
        typer.echo(f"not read: {skipped.name}: {skipped.why}", err=True)
    if output is Format.JSON:
        typer.echo(json.dumps(document(found, read), ensure_ascii=False, indent=2))
    else:
        typer.echo(table(found, len(read.texts)))
    threshold = Status(fail_on.value).rank
    codes = [ExitCode.INCOMPLETE] if read.skipped_by_name or not read.texts else []
    codes += [ExitCode.FINDINGS] if any(advice.rule.status.rank >= threshold for advice in found) else []
    raise typer.Exit(int(worst(codes)))
