"""`pdctl status`: what runs, since when, and whether the canary passed."""

import typer


def status(
    name: str = typer.Option("local", help="Name of the deployment."),
    output: str = typer.Option("table", "-o", "--output", metavar="table|json", help="Output format."),
) -> None:
    """Each process of the deployment. Exits 0 when ready, 1 when not, 3 when there is nothing or it is starting."""
    import json
    import time

    from pdctl.deploy import report
    from pdctl.deploy.local import LocalSupervisor
    from pdctl.deploy.spec import checked_name
    from pdctl.deploy.state import StateUnreadable
    from pdctl.errors import PdError, UsageError
    from pdctl.exit_codes import ExitCode
    from pdctl.render.status import table

    if output not in ("table", "json"):
        raise UsageError(f"`-o {output}` is not a format of this command", hint="use `table` or `json`")
    local = LocalSupervisor(checked_name(name))
    try:
        document = report.view(name, local.snapshot(), time.time())
    except StateUnreadable as error:
        raise PdError(
            f"the state of deployment `{name}` cannot be read", detail=str(error), code=ExitCode.INCOMPLETE
        ) from error
    troubled = [
        unit["role"]
        for unit in document["units"]
        if unit["state"] in ("failed", "backing-off", "not-answering", "dead")
    ]
    if troubled:
        document["last_log_lines"] = {role: local.tail(role, 5) for role in troubled}
    typer.echo(json.dumps(document, indent=2) if output == "json" else table(document))
    raise typer.Exit(report.exit_code(document))
