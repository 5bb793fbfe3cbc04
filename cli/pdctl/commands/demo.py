"""`pdctl demo`: the whole thing once, on this host, with its answer checked token by token."""

import typer


def demo(
    question: str = typer.Option("Why is the sky blue?", help="What to ask."),
    model: str = typer.Option(None, metavar="PATH|NAME", help="Hugging Face directory, or an embedded model."),
    max_tokens: int = typer.Option(64, min=1, max=4096, help="Length of the answer."),
    keep: bool = typer.Option(False, help="Leave the deployment running."),
) -> None:
    """Serve a small model from two processes, ask it something, and compare with one process. Exits 0 if equal."""
    import signal
    import sys

    from pdctl import extras
    from pdctl.exit_codes import ExitCode
    from pdctl.render.stages import StageLines

    extras.require("engine")
    from pdctl.deploy import demonstration

    # Being stopped takes the deployment down just as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    equal = demonstration.run(question, model, max_tokens, keep=keep, lines=StageLines(sys.stderr), out=sys.stdout)
    typer.echo(
        "passed: prefill and decode answered with the tokens of one process"
        if equal
        else "failed: the answer of prefill and decode differs from that of one process (DIFFERENT, above)"
    )
    raise typer.Exit(ExitCode.DONE if equal else ExitCode.FINDINGS)
