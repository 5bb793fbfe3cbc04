"""Plain columns for a terminal or a pipe: no colour, no borders, right also for Chinese text."""

import unicodedata
from collections.abc import Iterator, Sequence


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """One line a row, cells padded to the widest of their column, two blanks between. Rows are equally long."""
    widths = [max(map(_width, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _width(cell: str) -> int:
    """Terminal columns: East Asian wide characters take two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in cell)
    return len(cell) + wide - sum(unicodedata.combining(character) > 0 for character in cell)
