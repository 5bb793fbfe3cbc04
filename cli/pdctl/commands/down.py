"""`pdctl down`: stop a deployment and prove that nothing of it is left."""

import typer


def down(name: str = typer.Option("local", help="Name of the deployment.")) -> None:
    """Stop router, prefill and decode, in this order, and an `up` that is still at work. Logs stay."""
    from pdctl.deploy.bringup import take_down
    from pdctl.deploy.spec import checked_name

    stopped = take_down(checked_name(name), say=lambda text: typer.echo(text, err=True))
    typer.echo(
        f"deployment `{name}`: stopped {', '.join(stopped)}" if stopped else f"deployment `{name}`: nothing runs"
    )
