"""`pdctl secret`: what the processes of a deployment know each other by."""

import typer

from pdctl.render.formats import Format

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The deployment's secret: rotate it.")


@app.command("rotate")
def rotate(
    name: str = typer.Option("local", help="Name of the deployment."),
    window: float = typer.Option(
        300.0, min=0.0, max=86_400.0, metavar="SECONDS", help="How long the old secret is taken too; 0 refuses it now."
    ),
    output: Format = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """Give the running deployment a new secret. Nothing stops: old and new are taken until the window ends."""
    import json
    import time

    from pdctl.deploy import secrets

    done = secrets.rotate(name, window)
    if output is Format.JSON:
        typer.echo(json.dumps({"schema": "pdctl.secret/1", "taken_by": done.taken_by, "old_until": done.old_until}))
        return
    until = time.strftime("%H:%M:%S", time.localtime(done.old_until))
    old = f"the old one is taken until {until}" if window else "the old one is refused"
    typer.echo(f"deployment `{name}`: {' and '.join(done.taken_by)} take the new secret; {old}")
