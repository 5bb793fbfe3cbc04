"""Errors of the command line, which typer finds and words, in the form and the words of pdctl's own."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from pdctl.errors import UsageError
from pdctl.exit_codes import ExitCode

# Typer names only this leaf of its family of usage errors.
_TYPERS: type[Exception] = typer.BadParameter.__mro__[1]
_REWORDED = (
    (r"Input should be greater than or equal to (\S+)", r"must be at least \1"),
    (r"Input should be less than or equal to (\S+)", r"must be at most \1"),
    (r"Input should be a valid integer.*", "must be a whole number"),
    (r"Input should be a valid number.*", "must be a number"),
    (r"Input should be ", "must be "),
    (r"Value error, ", ""),
    (r"Got unexpected extra arguments?(?:\(s\))? ", "too many arguments: "),
    (r"'([^'\s]+)'", r"`\1`"),
    (r"No such option: (\S+)", r"no such option: `\1`"),
)


@contextmanager
def told_as_ours() -> Iterator[None]:
    """Prints a usage error of typer's to stderr and exits 2; help that stands in for missing arguments is left alone."""
    try:
        yield
    except _TYPERS as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        typer.echo(_reworded(error).render(), err=True)
        raise typer.Exit(ExitCode.USAGE) from error


def _reworded(error: Any) -> UsageError:
    message = str(error.format_message()).strip()
    for pattern, words in _REWORDED:
        message = re.sub(pattern, words, message)
    message, _, suggestion = message.rstrip(".").partition(" Did you mean ")
    command = error.ctx.command_path if error.ctx is not None else "pdctl"
    hint = f"`{command} --help` shows what it takes"
    if suggestion:
        hint = f"did you mean {suggestion}? {hint}"
    # The choices of a missing option come one a line.
    message = re.sub(r"\s*\n\s*", " ", message.rstrip("."))
    return UsageError(message[:1].lower() + message[1:], hint=hint.replace("??", "?"))
