"""Blocks are given out once, in as few runs as can be, and come back whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdserve.block_pool import BlockPool, Run


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12)), max_size=60))
def test_every_block_has_exactly_one_owner_whatever_the_order(steps: list[tuple[bool, int]]) -> None:
    pool = BlockPool(40)
    taken: list[list[Run]] = []
    for give_back, count in steps:
        if give_back and taken:
            pool.give_back(taken.pop(count % len(taken)))
        elif (runs := pool.take(count)) is not None:
            assert sum(run.count for run in runs) == count
            taken.append(runs)
        else:
            assert pool.free < count
        pool.check_integrity([run for runs in taken for run in runs])


def test_the_shortest_run_that_fits_is_taken_so_that_long_ones_stay_whole() -> None:
    pool = BlockPool(20)
    first, second, third = pool.take(4), pool.take(6), pool.take(10)
    assert first and second and third
    pool.give_back(first)
    pool.give_back(third)
    assert pool.take(3) == [Run(0, 3)]
    assert pool.take(10) == [Run(10, 10)]


def test_fragments_are_joined_when_no_run_is_long_enough() -> None:
    pool = BlockPool(9)
    runs = [pool.take(3) for _ in range(3)]
    assert runs[0] and runs[2]
    pool.give_back(runs[0])
    pool.give_back(runs[2])
    taken = pool.take(5)
    assert taken is not None and len(taken) == 2 and sum(run.count for run in taken) == 5


def test_giving_back_twice_is_an_error() -> None:
    pool = BlockPool(8)
    runs = pool.take(4)
    assert runs
    pool.give_back(runs)
    with pytest.raises(ValueError, match="were not taken"):
        pool.give_back(runs)
    with pytest.raises(ValueError, match="were not taken"):
        pool.give_back([Run(6, 4)])


def test_too_much_takes_nothing() -> None:
    pool = BlockPool(8)
    assert pool.take(9) is None
    assert pool.free == 8
