"""Who meets whom, and when: every pair once, and nobody in two tests at a time."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def rounds(players: Sequence[T]) -> list[list[tuple[T, T]]]:
    """A round-robin tournament by the circle method: of n players n - 1 rounds, n where n is odd."""
    circle: list[T | None] = list(players)
    if len(circle) % 2:
        circle.append(None)
    made: list[list[tuple[T, T]]] = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        facing = zip(circle[:half], reversed(circle[half:]), strict=True)
        made.append([(one, other) for one, other in facing if one is not None and other is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return made
