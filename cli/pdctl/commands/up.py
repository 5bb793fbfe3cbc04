"""`pdctl up`: deploy and supervise a prefill process, a decode process and a router."""

from pathlib import Path
from typing import Any

import typer


def up(
    prefill: str = typer.Option(None, metavar="KIND", help="gpu_kind of the prefill pool (`cpu`, `h100`, ...)."),
    decode: str = typer.Option(None, metavar="KIND", help="gpu_kind of the decode pool."),
    model: str = typer.Option(None, metavar="PATH|NAME", help="Hugging Face directory, or an embedded model."),
    host: str = typer.Option(None, help="Address the router listens on [default: 127.0.0.1]."),
    port: int = typer.Option(None, min=0, max=65535, help="Port of the router, 0 for a free one [default: 8000]."),
    dtype: str = typer.Option(None, metavar="float32|bfloat16|float16", help="[default: float32 on CPU]"),
    security: str = typer.Option(None, metavar="authenticated|encrypted", help="[default: authenticated]"),
    threads: int = typer.Option(None, min=1, help="CPU threads of each engine [default: half of the cores]."),
    timeout: float = typer.Option(None, metavar="SECONDS", help="To be ready within [default: 300]."),
    name: str = typer.Option(None, help="Name of the deployment [default: local]."),
    file: Path = typer.Option(None, "--file", "-f", metavar="FILE", help="Deployment [default: pdctl.yaml, if any]."),
    inventory: Path = typer.Option(None, "-i", "--inventory", metavar="INVENTORY", help="Nodes to deploy to."),
    foreground: bool = typer.Option(False, help="Stay, and take the deployment down with this command."),
) -> None:
    """Deploy the engines, wait until a canary with known tokens has passed, and print the endpoint."""
    import signal
    import sys
    import time

    from pdctl import baseline
    from pdctl.deploy import bringup, spec
    from pdctl.errors import UsageError
    from pdctl.extras import require as require_extra
    from pdctl.render.stages import StageLines

    if inventory is not None:
        raise UsageError(
            "`-i` cannot be used with `up` yet: this release deploys on this host only",
            hint="without `-i`, `pdctl up` starts prefill, decode and router on this host",
        )
    flags: dict[str, Any] = {
        "name": name,
        "model": model,
        "dtype": dtype,
        "security": security,
        "timeout_s": timeout,
        "router.host": host,
        "router.port": port,
        "pools.prefill.kind": prefill,
        "pools.decode.kind": decode,
        "pools.prefill.threads": threads,
        "pools.decode.threads": threads,
    }
    lines = StageLines(sys.stderr)
    wanted = spec.load(file, flags)
    require_extra("engine")
    # A service manager's stop is to roll back and take down just as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if foreground:
        bringup.stay_up(wanted, lines, announce=typer.echo)
        return
    began = time.monotonic()
    result = bringup.bring_up(wanted, lines)
    if result.started:
        lines.say(f"ready after {time.monotonic() - began:.1f} s: {result.record.model_name}")
    else:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(result.since))
        lines.say(f"deployment `{wanted.name}` is ready since {since}; nothing to do")
    typer.echo(result.record.endpoint + "/v1")
    if result.started:
        baseline.keep()
