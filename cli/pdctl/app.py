"""The command table. A command is one module in `commands/` and one line here."""

import sys
from contextlib import suppress
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from pdctl.commands import (
    checks,
    collect,
    demo,
    doctor,
    down,
    env,
    help_topics,
    inventory,
    kv,
    lint,
    logs,
    model,
    pair,
    policy,
    provision,
    runs,
    secret,
    status,
    up,
)
from pdctl.errors import PdError
from pdctl.exit_codes import ExitCode
from pdctl.system_errors import reader_may_leave, silence_stdout, unusable
from pdctl.usage import told_as_ours

PANELS = ("Start", "Diagnose", "Operate", "Develop")


class PanelGroup(TyperGroup):
    """Plain help, with commands grouped under the four panels (rich's help doubles the start-up time)."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        with reader_may_leave(), told_as_ours():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> Any:
        with reader_may_leave(), told_as_ours():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                panel = getattr(command, "rich_help_panel", None)
                rows[panel if isinstance(panel, str) else "Develop"].append((name, command.get_short_help_str(120)))
        for panel, entries in rows.items():
            if entries:
                with formatter.section(panel):
                    formatter.write_dl(entries)


app = typer.Typer(
    cls=PanelGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Provision, diagnose and serve LLMs from separate prefill and decode nodes, on bare metal.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from pdctl import __version__

        typer.echo(f"pdctl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


app.command("demo", rich_help_panel="Start")(demo.demo)
app.command("provision", rich_help_panel="Start")(provision.provision)
app.add_typer(inventory.app, name="inventory", rich_help_panel="Start")
app.add_typer(policy.app, name="policy", rich_help_panel="Start")
app.command("up", rich_help_panel="Start")(up.up)
app.add_typer(model.app, name="model", rich_help_panel="Start")
app.command("doctor", rich_help_panel="Diagnose")(doctor.doctor)
app.command("collect", rich_help_panel="Diagnose")(collect.collect)
app.command("explain", rich_help_panel="Diagnose")(checks.explain)
app.add_typer(checks.app, name="checks", rich_help_panel="Diagnose")
app.command("lint", rich_help_panel="Diagnose")(lint.lint)
app.command("pair", rich_help_panel="Diagnose")(pair.pair)
app.add_typer(kv.app, name="kv", rich_help_panel="Diagnose")
app.command("status", rich_help_panel="Operate")(status.status)
app.command("logs", rich_help_panel="Operate")(logs.logs)
app.command("down", rich_help_panel="Operate")(down.down)
app.add_typer(runs.app, name="runs", rich_help_panel="Operate")
app.command("env", rich_help_panel="Operate")(env.env)
app.add_typer(secret.app, name="secret", rich_help_panel="Operate")
app.add_typer(help_topics.app, name="help", rich_help_panel="Develop")


def main() -> None:
    try:
        app()
    except PdError as error:
        _fail(error)
    except OSError as error:
        _fail(unusable(error))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


def _fail(error: PdError) -> NoReturn:
    try:
        sys.stdout.flush()
    except OSError:
        silence_stdout()
    # stderr may be closed, or on the full disk; the exit code still tells.
    with suppress(OSError, ValueError, AttributeError):
        print(error.render(), file=sys.stderr, flush=True)
    sys.exit(error.code)
