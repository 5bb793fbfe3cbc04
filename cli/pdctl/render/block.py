"""A labelled paragraph below a head line."""

import textwrap
from collections.abc import Iterator


def block(label: str, text: str, width: int) -> Iterator[tuple[str, str]]:
    """(line, style) of the text, wrapped at spaces only, so that no word of a command is broken."""
    indent = " " * 8
    first = f"{indent}{label:<7} " if label else f"{indent}{'':8}"
    wrapped = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=f"{indent}{'':8}",
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in wrapped or [first.rstrip()]:
        yield line, ""
