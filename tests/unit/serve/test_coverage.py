"""What is missing is found whatever the order of arrival."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pdserve.coverage import Coverage


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=20))
def test_missing_is_exactly_what_did_not_arrive(frames: list[tuple[int, int]]) -> None:
    coverage = Coverage()
    arrived: set[int] = set()
    for first, count in frames:
        coverage.add(first, first + count)
        arrived |= set(range(first, first + count))
    missing = {token for start, end in coverage.missing(40) for token in range(start, end)}
    assert missing == set(range(40)) - arrived


def test_nothing_is_missing_after_all_came_twice_and_backwards() -> None:
    coverage = Coverage()
    for first in (20, 10, 0, 10):
        coverage.add(first, first + 10)
    assert list(coverage.missing(30)) == []
