"""Which tokens of a range have arrived, whatever the order and however often."""

from collections.abc import Iterator


class Coverage:
    """Half-open token ranges, merged. A sender pushes in order, so this is nearly always one range."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, first: int, end: int) -> None:
        merged: list[tuple[int, int]] = []
        for start, stop in sorted([*self._ranges, (first, end)]):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
            else:
                merged.append((start, stop))
        self._ranges = merged

    def holds(self, first: int, end: int) -> bool:
        """Whether all of first..end-1 has arrived already."""
        return any(start <= first and end <= stop for start, stop in self._ranges)

    def missing(self, tokens: int) -> Iterator[tuple[int, int]]:
        """The half-open ranges of 0..tokens-1 that have not arrived."""
        reached = 0
        for start, stop in self._ranges:
            if start > reached:
                yield reached, start
            reached = stop
        if reached < tokens:
            yield reached, tokens
