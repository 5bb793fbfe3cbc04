"""`pdctl kv`: what crosses between prefill and decode, and what each of them holds of it."""

from pathlib import Path
from typing import BinaryIO

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


@app.command("capture")
def capture(
    file: Path = typer.Argument(metavar="FILE", help="A new file; it will hold prompts' KV, and is of mode 0600."),
    name: str = typer.Option("local", help="Name of the deployment."),
    transfers: int = typer.Option(0, min=0, help="End after that many transfers; 0: as many as come."),
    seconds: float = typer.Option(60.0, min=0.1, max=86_400.0, help="End after that long."),
    max_bytes: int = typer.Option(256 << 20, min=64 << 10, max=1 << 40, help="End before the file is longer."),
) -> None:
    """Write the KV frames that cross from prefill to decode into a file, for `kv inspect` and for replay."""
    from pdctl.deploy import capture

    done = capture.capture(name, file, max_bytes=max_bytes, transfers=transfers, seconds=seconds)
    end = "; interrupted: the last frame may be cut" if done.interrupted else ""
    typer.echo(f"{done.path}: {done.size:,} bytes{end}")


@app.command("inspect")
def inspect(
    file: Path | None = typer.Argument(None, metavar="[FILE]", help="A capture, or a file of the `file` transport."),
    live: bool = typer.Option(False, "--live", help="The last transfers of the running deployment instead."),
    name: str = typer.Option("local", help="Name of the deployment, with --live."),
    capacity_tokens: int = typer.Option(
        0xFFFF_FFFF, min=1, help="Tokens that decode's cache holds, if it is to be judged."
    ),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="Only frames with faults, and the summary."),
    output: Format = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout; json is one object a line."),
) -> None:
    """Read every KV frame of a file: verify its checksum, judge its shape, and say what each request lacks.

    Exits 0 when all is well, 1 when anything is wrong. With --live: 1 when one of the last transfers failed.
    """
    from pdctl.errors import UsageError

    if live == (file is not None):
        raise UsageError("name a FILE, or say `--live`", hint="`pdctl kv capture FILE` makes one")
    raise typer.Exit(_inspect_live(name, output) if file is None else _inspect(file, capacity_tokens, quiet, output))


def _opened(file: Path) -> BinaryIO:
    import os
    import stat

    from pdctl.errors import UsageError

    try:
        # A pipe would be waited for before it could be refused.
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"cannot read `{file}`", detail=str(error)) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UsageError(f"cannot read `{file}`", detail="it is not a regular file")
    return os.fdopen(fd, "rb")


def _inspect(file: Path, capacity_tokens: int, quiet: bool, output: Format) -> int:
    import json
    from collections import Counter
    from dataclasses import replace

    from pdctl.exit_codes import ExitCode
    from pdctl.render import inspection as render
    from pdwire.inspect import Inspection

    with _opened(file) as stream:
        inspection = Inspection(stream.read, capacity_tokens=capacity_tokens)
        faults, shown, hidden = 0, Counter[bytes](), 0
        for one in inspection.frames():
            faults += len(one.faults)
            room = max(0, render.MOST_FAULTS - shown[one.request])
            shown[one.request] += len(one.faults)
            hidden += max(0, len(one.faults) - room)
            if (one.faults and room) or not quiet:
                cut = replace(one, faults=one.faults[:room])
                typer.echo(json.dumps(render.document(cut)) if output is Format.JSON else render.frame_line(cut))
    if output is Format.TABLE:
        typer.echo(render.summary(inspection, faults, hidden))
    elif inspection.faults or hidden:
        typer.echo(json.dumps({"faults": inspection.faults, "not_shown": hidden}))
    return ExitCode.FINDINGS if faults or inspection.faults else ExitCode.DONE


def _inspect_live(name: str, output: Format) -> int:
    import json

    from pdctl.deploy.engines import Engines
    from pdctl.exit_codes import ExitCode
    from pdctl.render import inspection as render

    answer = Engines(name).get("decode", "/v1/transfers")
    typer.echo(json.dumps(answer, indent=2) if output is Format.JSON else render.transfers(answer))
    return ExitCode.FINDINGS if any(one["failure"] for one in answer["transfers"]) else ExitCode.DONE
