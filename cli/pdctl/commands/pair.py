"""`pdctl pair`: will this prefill and that decode side work together? From configurations, before anything runs."""

from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from pdctl.errors import UsageError


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


class FailOn(StrEnum):
    WARN = "warn"
    FATAL = "fatal"


def pair(
    file: Path | None = typer.Argument(
        None, metavar="[FILE]", help="YAML or JSON description of both sides; its keys: `pdctl help pair-file`."
    ),
    model: str = typer.Option("", metavar="PATH", help="Model directory or config.json, for both sides."),
    engine: str = typer.Option("", metavar="'NAME VERSION'", help="Engine of both sides, as `vllm 0.33.0` or `torch`."),
    prefill: str = typer.Option(
        "", metavar="GPU", help="Prefill's GPU: kind (`pdctl help gpu-kinds`), nvidia-smi's name, or `cpu`."
    ),
    decode: str = typer.Option("", metavar="GPU", help="Decode's GPU."),
    prefill_args: str = typer.Option("", help="Prefill's engine options, or its whole command line, as typed."),
    decode_args: str = typer.Option("", help="Decode's engine options, or its whole command line."),
    prefill_model: str = typer.Option("", metavar="PATH", help="Prefill's model, where it is another path."),
    decode_model: str = typer.Option("", metavar="PATH", help="Decode's model."),
    prefill_engine: str = typer.Option("", metavar="'NAME VERSION'", help="Prefill's engine, where it is another."),
    decode_engine: str = typer.Option("", metavar="'NAME VERSION'", help="Decode's engine."),
    fail_on: FailOn = typer.Option(FailOn.FATAL, help="The mildest outcome that exits 1."),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="Also show the fields that are equal, and sources."),
    output: Output = typer.Option(Output.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """Judge a prefill and a decode side by their configurations, before anything runs.

    Exits 0 when they fit, 1 when they do not, 3 when something that decides it is not known.
    """
    import json

    from pdchecks.pair.command import DescriptionError
    from pdchecks.pair.describe import describe
    from pdchecks.pair.document import document
    from pdchecks.pair.verdict import pair_verdict
    from pdctl.model_files import model_loader
    from pdctl.render.pair import table
    from pdwire.kvmodel import ConfigError

    options = {
        "config": model,
        "engine": engine,
        "prefill": {"gpu": prefill, "args": prefill_args, "config": prefill_model, "engine": prefill_engine},
        "decode": {"gpu": decode, "args": decode_args, "config": decode_model, "engine": decode_engine},
    }
    described: Any = _without_empty(options)
    if file is not None:
        if described != {"prefill": {}, "decode": {}}:
            raise UsageError(
                "a FILE describes the pair alone",
                detail="options that describe it were given too",
                hint="leave one out",
            )
        described = _read(file)
    else:
        for option, gpu in (("--prefill", prefill), ("--decode", decode)):
            _refuse_unknown_gpu(option, gpu)
    base = file.parent if file is not None else Path()
    try:
        sides = describe(described, model_loader(base, lambda text: typer.echo(text, err=True)))
        verdict = pair_verdict(*sides)
    except (DescriptionError, ConfigError) as error:
        raise UsageError(
            "the pair is not described well enough",
            detail=str(error),
            hint="`pdctl pair --help` names the options, `pdctl help pair-file` the keys of a FILE",
        ) from error
    if output is Output.JSON:
        typer.echo(json.dumps(document(verdict), ensure_ascii=False, indent=2))
    else:
        typer.echo(table(verdict, verbose=verbose))
    raise typer.Exit(_exit_code(verdict.outcome.value, fail_on))


def _without_empty(options: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_empty(value) if isinstance(value, dict) else value
        for key, value in options.items()
        if value not in ("", None)
    }


def _refuse_unknown_gpu(option: str, word: str) -> None:
    """A FILE may name a GPU that the table has not yet: what depends on it is then unknown."""
    from pdchecks.pair.gpus import close_kinds, find_gpu
    from pdchecks.unknown import Unknown

    if word and isinstance(find_gpu(word), Unknown):
        close = close_kinds(word)
        raise UsageError(
            f"`{option} {word}`: no such GPU kind",
            detail=f"near it: {', '.join(close)}" if close else None,
            hint="`pdctl help gpu-kinds` lists them; without the option, what depends on the GPU is reported as unknown",
        )


def _read(file: Path) -> object:
    import yaml

    from pdchecks import yaml_text

    try:
        return yaml_text.load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read `{file}`", detail=str(error)) from error


def _exit_code(outcome: str, fail_on: FailOn) -> int:
    from pdctl.exit_codes import ExitCode

    if outcome == "fatal" or (outcome == "warn" and fail_on is FailOn.WARN):
        return ExitCode.FINDINGS
    return ExitCode.INCOMPLETE if outcome == "unknown" else ExitCode.DONE
