"""`pdctl help TOPIC`: reference that belongs to no single command."""

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Reference topics.")


@app.callback()
def _topics() -> None:
    pass


@app.command("exit-codes")
def exit_codes() -> None:
    """What each exit code means."""
    from pdctl.exit_codes import OF_COMMANDS, SEVERAL, ExitCode

    for code in ExitCode:
        typer.echo(f"{code.value:>3}  {code.meaning}")
    typer.echo(f"\n{SEVERAL}\n")
    for command, meaning in OF_COMMANDS.items():
        typer.echo(f"pdctl {command}: {meaning}")


@app.command("gpu-kinds")
def gpu_kinds() -> None:
    """The GPUs that pdctl knows: what `gpu_kind`, `pdctl pair` and `pdctl up` take."""
    from pdchecks.pair.gpus import gpu_table
    from pdctl.render.columns import columns

    rows = [("kind", "family", "memory", "compute", "as nvidia-smi or its maker names it")]
    for gpu in gpu_table():
        memory = f"{gpu.memory_gib:g} GiB" if gpu.memory_gib else "-"
        capability = "{}.{}".format(*gpu.compute_capability) if gpu.compute_capability else "-"
        rows.append((gpu.kind, gpu.family, memory, capability, ", ".join(gpu.names) or "-"))
    typer.echo("\n".join(columns(rows)))
    typer.echo("\nA family stands for all of its kinds: what they agree on is known, the rest is unknown.")


@app.command("pair-file")
def pair_file() -> None:
    """What `pdctl pair FILE` reads: an example, and every key."""
    from pdchecks.pair.describe import ABOUT, EXAMPLE, KEYS
    from pdctl.render.columns import columns

    typer.echo(EXAMPLE)
    typer.echo("Each key may stand at the top, for both sides, or in one of them. Paths are relative to the file.\n")
    typer.echo("\n".join(columns([(key, text.replace("`", "")) for key, text in KEYS.items()])))
    typer.echo("\nThe whole may also stand below `pair:`, beside these, which nobody judges:\n")
    typer.echo("\n".join(columns(list(ABOUT.items()))))
