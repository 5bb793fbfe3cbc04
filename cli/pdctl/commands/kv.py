"""`pdctl kv`: what crosses between prefill and decode, and what each of them holds of it."""

import typer

from pdctl.render.formats import Format

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="KV transfers: what is held, what crosses.")


@app.command("ledger")
def ledger(
    name: str = typer.Option("local", help="Name of the deployment."),
    output: Format = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """What prefill and decode hold for which request, since when, until when. Empty when no request is in work."""
    import json
    import time

    from pdctl.deploy.engines import ENGINES, Engines
    from pdctl.render.ledger import table

    engines = Engines(name)
    documents = [engines.get(role, "/v1/ledger") for role in ENGINES]
    if output is Format.JSON:
        typer.echo(json.dumps({"schema": "pdctl.ledger/1", "engines": documents}, indent=2))
    else:
        typer.echo(table(documents, time.time()))
