"""`pdctl logs`: what the processes of a deployment wrote."""

import typer


def logs(
    role: str = typer.Argument("", metavar="[ROLE]", help="prefill, decode, router, supervisor or reference."),
    follow: bool = typer.Option(False, "-f", "--follow", help="Go on with what is written from now on."),
    lines: int = typer.Option(20, "-n", "--lines", min=0, max=1_000_000, help="Last lines of each log."),
    name: str = typer.Option("local", help="Name of the deployment."),
) -> None:
    """The last lines of one log, or of all by time, each line with its role. They stay after `down`."""
    from pdctl.deploy.local import LOG_NAMES, LocalSupervisor
    from pdctl.deploy.logs import by_time
    from pdctl.deploy.spec import checked_name
    from pdctl.errors import PdError, UsageError
    from pdctl.exit_codes import ExitCode

    if role and role not in LOG_NAMES:
        raise UsageError(f"`{role}` keeps no log", hint=f"one of: {', '.join(LOG_NAMES)}")
    local = LocalSupervisor(checked_name(name))
    names = [role] if role else list(LOG_NAMES)
    there = [each for each in LOG_NAMES if local.state.log(each).exists()]
    if role and there and role not in there:
        raise PdError(
            f"deployment `{name}` has no log of `{role}`: that did not run",
            hint=f"there are logs of {', '.join(there)}",
            code=ExitCode.INCOMPLETE,
        )
    if not there:
        raise PdError(
            f"deployment `{name}` has no logs here",
            detail=f"looked in {local.state.logs}",
            hint="`pdctl up` starts a deployment; `--name` names another",
            code=ExitCode.INCOMPLETE,
        )

    def show(unit: str, line: str) -> None:
        typer.echo(line if role else f"{unit:<10} | {line}")

    # The tail ends where following begins: no line is lost between the two, and none comes twice.
    ends = local.log_ends(names)
    for each, line in by_time({each: local.tail(each, lines, ends[each]) for each in names}):
        show(each, line)
    if follow:
        for each, line in local.follow(ends):
            show(each, line)
