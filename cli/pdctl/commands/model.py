"""`pdctl model`: the models that pdctl can fetch by itself."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pdserve.embedded import EmbeddedModel

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The embedded models: list, fetch, locate.")


@app.command("list")
def list_models(
    output: str = typer.Option("table", "-o", "--output", metavar="table|json", help="Output format."),
) -> None:
    """What can be fetched without an account or a model hub."""
    import json

    from pdctl.errors import UsageError
    from pdctl.paths import cache_dir
    from pdserve import embedded

    cache = cache_dir()
    rows = [
        {
            "name": model.name,
            "license": model.license,
            "source": f"{model.package}=={model.version} (PyPI)",
            "upstream": model.upstream,
            "download_bytes": model.download_bytes,
            "path": str(model.directory(cache)) if embedded.present(model, cache) else None,
        }
        for model in embedded.MODELS
    ]
    if output == "json":
        typer.echo(json.dumps({"schema": "pdctl.models/1", "models": rows}, indent=2))
    elif output == "table":
        for row in rows:
            typer.echo(f"{row['name']}  {row['license']}  {row['source']}  {row['path'] or 'not fetched'}")
    else:
        raise UsageError(f"`-o {output}` is not a format of this command", hint="use `table` or `json`")


@app.command("fetch")
def fetch(name: str = typer.Argument("", metavar="[NAME]", help="Default: the first one listed.")) -> None:
    """Download and convert a model, or verify the one that is there. Prints its path."""
    from pdctl import extras
    from pdctl.deploy.models import explained
    from pdctl.paths import cache_dir
    from pdserve import embedded

    model = _named(name)
    with explained():
        if embedded.present(model, cache_dir()):
            typer.echo("already there; verifying every file", err=True)
        else:
            extras.require("engine")
        directory = embedded.fetch(model, cache_dir(), lambda line: typer.echo(line, err=True))
        embedded.verify(model, cache_dir())
    typer.echo(directory)


@app.command("path")
def path(name: str = typer.Argument("", metavar="[NAME]", help="Default: the first one listed.")) -> None:
    """Print the directory of a fetched model."""
    from pdctl.errors import PdError
    from pdctl.exit_codes import ExitCode
    from pdctl.paths import cache_dir
    from pdserve import embedded

    model = _named(name)
    directory = model.directory(cache_dir())
    if not embedded.present(model, cache_dir()):
        raise PdError(
            f"`{model.name}` is not in the cache",
            detail=f"it would stand in {directory}",
            hint=f"pdctl model fetch {model.name}",
            code=ExitCode.INCOMPLETE,
        )
    typer.echo(directory)


def _named(name: str) -> "EmbeddedModel":
    from pdctl.errors import UsageError
    from pdserve import embedded

    model = embedded.find(name) if name else embedded.DEFAULT
    if model is None:
        raise UsageError(
            f"`{name}` is not an embedded model",
            detail=f"there is: {', '.join(known.name for known in embedded.MODELS)}",
            hint="any local Hugging Face directory works with `pdctl up --model PATH`",
        )
    return model
