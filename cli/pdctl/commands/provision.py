"""`pdctl provision INVENTORY`: converge nodes to the policy."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdctl.asking import become_password
from pdctl.errors import UsageError
from pdctl.render.formats import Format

if TYPE_CHECKING:
    from pdctl.provisioning.options import Options
    from pdctl.provisioning.run import Resumed


BREAK_LOCK = typer.Option(False, "--break-lock", help="Take nodes from an operator whose run is dead; recorded.")
WHILE_SERVING = typer.Option(
    False, "--while-serving", help="Make changes that an active engine would feel, too; recorded."
)


def provision(
    inventory: Path | None = typer.Argument(
        None, metavar="INVENTORY", help="INI or YAML inventory, or a folder of them."
    ),
    inventory_option: Path | None = typer.Option(None, "-i", "--inventory", help="The same, as an option."),
    check: bool = typer.Option(False, "--check", "-C", help="Change nothing; say what would change."),
    diff: bool = typer.Option(False, "--diff", "-D", help="Show what changes in files and settings."),
    limit: str | None = typer.Option(None, "--limit", "-l", help="Only hosts that this Ansible pattern selects."),
    tags: list[str] = typer.Option([], "--tags", "-t", help="Only these roles, by name."),
    skip_tags: list[str] = typer.Option([], "--skip-tags", help="All roles but these."),
    extra_vars: list[str] = typer.Option([], "-e", "--extra-vars", help="key=value, JSON, or @file."),
    plan_out: Path | None = typer.Option(None, "--plan-out", metavar="FILE", help="Check, and write the plan here."),
    apply_plan: Path | None = typer.Option(None, "--apply-plan", metavar="FILE", help="Do exactly what a plan says."),
    drift: bool = typer.Option(False, "--drift", help="Only nodes that are not as the last run left them."),
    canary: int | None = typer.Option(
        None, "--canary", min=1, metavar="N", help="The first N hosts alone, then others."
    ),
    serial: str | None = typer.Option(None, "--serial", metavar="N|N%", help="So many hosts, or of all, at a time."),
    forks: int | None = typer.Option(None, "--forks", "-f", min=1, help="Hosts at once; default from the cores."),
    timeout: int = typer.Option(15, "--timeout", "-T", min=1, help="Seconds for one SSH connection attempt."),
    become: bool = typer.Option(False, "--become", "-b", help="Become root on the nodes with sudo."),
    ask_become_pass: bool = typer.Option(False, "--ask-become-pass", "-K", help="Ask for the sudo password."),
    break_lock: bool = BREAK_LOCK,
    while_serving: bool = WHILE_SERVING,
    output: Format = typer.Option(Format.TABLE, "-o", "--output", help="Format of stdout."),
) -> None:
    """Converge nodes to the policy: locale, kernel settings, limits, RDMA, GPUs, MTU, QoS and more.

    A second run changes nothing. With --canary or --serial, hosts begin only when all before them ended well.
    Exit codes: 0 done, 3 nodes unfit, unreachable, held by another or not all tasks ran, 4 settings refused, 5 failed, 130 interrupted.
    """
    if apply_plan is not None:
        _refuse_beside_a_plan([inventory, inventory_option, check, limit, tags, skip_tags, plan_out, drift])
    elif (inventory is None) == (inventory_option is None):
        raise UsageError("give one inventory", hint="`pdctl provision INVENTORY` or `pdctl provision -i INVENTORY`")
    if drift and plan_out is not None:
        raise UsageError("`--plan-out` is about every node, and `--drift` leaves most alone", hint="give one of them")
    password = become_password() if ask_become_pass else None

    from pdctl.content import content_root
    from pdctl.provisioning.options import Options, default_forks

    options = Options(
        inventory=inventory or inventory_option or Path(),
        playbook=content_root() / "playbooks" / "provision.yml",
        check=check,
        diff=diff,
        limit=limit,
        tags=tuple(tags),
        skip_tags=tuple(skip_tags),
        extra_vars=tuple(extra_vars),
        canary=canary,
        serial=serial,
        forks=forks or default_forks(),
        connect_timeout_s=timeout,
        become=become or ask_become_pass,
        become_password=password,
        drift=drift,
        break_lock=break_lock,
        while_serving=while_serving,
    )
    raise typer.Exit(converge(options, output, plan_out=plan_out, apply=apply_plan))


def _refuse_beside_a_plan(given: list[object]) -> None:
    if any(given):
        raise UsageError(
            "`--apply-plan` says by itself which nodes and roles are meant",
            hint="beside it: -e (the same as for the plan), --canary, --serial, -f, -T, -b, -K, -D, -o, "
            "--while-serving, --break-lock",
        )


def converge(
    options: "Options",
    output: Format,
    *,
    plan_out: Path | None = None,
    apply: Path | None = None,
    resumed: "Resumed | None" = None,
) -> int:
    """Run with progress on stderr, print how it ended; the exit code."""
    import json
    import shlex
    from functools import partial

    from pdctl.printable import printable
    from pdctl.provisioning.document import document
    from pdctl.provisioning.progress import progress
    from pdctl.provisioning.render import text
    from pdctl.provisioning.run import provision as run

    if plan_out is not None:
        from pdctl.provisioning.planned import make_plan

        run = partial(make_plan, plan_out)
    if apply is not None:
        from pdctl.provisioning.plan import read_plan
        from pdctl.provisioning.planned import apply_plan

        run = partial(apply_plan, read_plan(apply))
    if resumed is not None:
        from pdctl.provisioning.resume import resume

        run = partial(resume, resumed)
    with progress() as watch:
        report = run(options, watch, lambda text: typer.echo(printable(f"warning: {text}"), err=True))
    if output is Format.JSON:
        typer.echo(json.dumps(document(report), ensure_ascii=False, indent=2))
    else:
        typer.echo(printable(text(report, diff=options.diff or plan_out is not None)))
    if plan_out is not None:
        given = shlex.quote(str(plan_out))
        typer.echo(f"plan written to {given}; to do it: `pdctl provision --apply-plan {given}`", err=True)
    return int(report.exit_code)
