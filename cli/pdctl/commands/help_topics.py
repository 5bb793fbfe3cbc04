"""`pdctl help TOPIC`: reference that belongs to no single command."""

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Reference topics.")


@app.callback()
def _topics() -> None:
    pass


@app.command("exit-codes")
def exit_codes() -> None:
    """What each exit code means."""
    from pdctl.exit_codes import ExitCode

    for code in ExitCode:
        typer.echo(f"{code.value:>3}  {code.meaning}")
    typer.echo("\nWhen several apply, the first of 130, 5, 4, 3, 1 wins. `-o nagios` exits 0/1/2/3 as plugins do.")
