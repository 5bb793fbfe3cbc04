"""`pdctl checks list` and `pdctl explain ID`."""

from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from pdctl.errors import UsageError

if TYPE_CHECKING:
    from pdchecks.check import Check
    from pdchecks.lint.rule import Rule

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The doctor's checks.")


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


@app.callback()
def _checks() -> None:
    pass


@app.command("list")
def list_checks(
    lint: bool = typer.Option(False, "--lint", help="The rules of `pdctl lint` instead."),
    output: Output = typer.Option(Output.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """All checks, in the order in which the doctor asks them."""
    if lint:
        _list_rules(output)
        return
    from pdchecks.registry import CHECKS

    if output is Output.JSON:
        import json

        rows = [{"id": c.id, "topic": c.topic, "severity": c.severity.value, "title": c.title} for c in CHECKS]
        typer.echo(json.dumps({"schema": "pdctl.checks/1", "checks": rows}, ensure_ascii=False, indent=2))
        return
    for check in CHECKS:
        typer.echo(f"{check.id:<12} {check.topic:<24} {check.severity.value:<9} {check.title}")


def _list_rules(output: Output) -> None:
    from pdchecks.lint.registry import RULES

    if output is Output.JSON:
        import json

        rows = [{"id": rule.id, "status": rule.status.value, "title": rule.title} for rule in RULES]
        typer.echo(json.dumps({"schema": "pdctl.lint-rules/1", "rules": rows}, ensure_ascii=False, indent=2))
        return
    for rule in RULES:
        typer.echo(f"{rule.id:<12} {rule.status.value:<5} {rule.title}")


def explain(
    check_id: str = typer.Argument(
        ..., metavar="ID", help="A check's ID, as a finding shows it, or a topic, as `checks list` shows it."
    ),
    output: Output = typer.Option(Output.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """Explain a finding: what the check looks at, why it matters, how to verify and how to fix. Lint rules too."""
    from pdchecks.lint.registry import RULE_BY_ID
    from pdchecks.registry import BY_ID

    wanted = check_id.strip().upper()
    if wanted in RULE_BY_ID:
        _explain_rule(RULE_BY_ID[wanted], output)
        return
    about = [check for check in BY_ID.values() if wanted in (check.id, check.topic.upper())]
    if not about:
        import difflib

        topics = {check.topic.upper(): check.id for check in BY_ID.values()}
        # A part of a name, such as MTU, stands for all that have it.
        near = [name for name in (*BY_ID, *RULE_BY_ID) if wanted in name.split("-") or name.startswith(wanted or "?")]
        if not near:
            close = difflib.get_close_matches(wanted, [*BY_ID, *RULE_BY_ID, *topics], n=3, cutoff=0.5)
            near = sorted({topics.get(name, name) for name in close})
        every = "`pdctl checks list` names them all"
        hint = f"did you mean {', '.join(near[:9])}? {every}" if near else every
        raise UsageError(f"no check `{check_id}`", hint=hint)
    if len(about) > 1 and output is Output.JSON:
        names = ", ".join(sorted(check.id for check in about))
        raise UsageError(f"several checks have the topic `{check_id}`", hint=f"name one of {names}")
    for place, check in enumerate(sorted(about, key=lambda check: check.id)):
        if place:
            typer.echo()
        _explain_check(check, output)


def _explain_check(check: "Check", output: Output) -> None:
    from pdchecks.documentation import explanation

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


def _explain_rule(rule: "Rule", output: Output) -> None:
    if output is Output.JSON:
        import json

        record = {
            "schema": "pdctl.lint-rule/1",
            "id": rule.id,
            "status": rule.status.value,
            "title": rule.title,
            "sources": list(rule.sources),
            "text": rule.document,
        }
        typer.echo(json.dumps(record, ensure_ascii=False, indent=2))
    else:
        typer.echo(rule.document.rstrip())
