"""`pdctl checks list` and `pdctl explain ID`."""

from enum import StrEnum

import typer

from pdctl.errors import UsageError

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The doctor's checks.")


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


@app.callback()
def _checks() -> None:
    pass


@app.command("list")
def list_checks(output: Output = typer.Option(Output.TABLE, "-o", "--output", help="Format of stdout.")) -> None:
    """All checks, in the order in which the doctor asks them."""
    from pdchecks.registry import CHECKS

    if output is Output.JSON:
        import json

        rows = [{"id": c.id, "topic": c.topic, "severity": c.severity.value, "title": c.title} for c in CHECKS]
        typer.echo(json.dumps({"schema": "pdctl.checks/1", "checks": rows}, ensure_ascii=False, indent=2))
        return
    for check in CHECKS:
        typer.echo(f"{check.id:<12} {check.topic:<24} {check.severity.value:<9} {check.title}")


def explain(
    check_id: str = typer.Argument(..., metavar="ID", help="A check's ID, as a finding shows it."),
    output: Output = typer.Option(Output.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """Explain a finding: what the check looks at, why it matters, how to verify and how to fix."""
    from pdchecks.documentation import explanation
    from pdchecks.registry import BY_ID

    check = BY_ID.get(check_id.strip().upper())
    if check is None:
        import difflib

        close = difflib.get_close_matches(check_id.upper(), BY_ID, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(close)}?" if close else "`pdctl checks list` names them all"
        raise UsageError(f"no check `{check_id}`", hint=hint)
    text = explanation(check)
    if output is Output.JSON:
        import json

        record = {
            "schema": "pdctl.check/1",
            "id": check.id,
            "topic": check.topic,
            "severity": check.severity.value,
            "title": check.title,
            "sources": list(check.sources),
            "text": text,
        }
        typer.echo(json.dumps(record, ensure_ascii=False, indent=2))
    else:
        typer.echo(text.rstrip())
