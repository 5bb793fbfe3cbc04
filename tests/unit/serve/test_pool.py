"""The router asks the least busy peer, and one that failed only when no other is left."""

from __future__ import annotations

from pdserve.config import Peer
from pdserve.router.pool import Pool


def make() -> Pool:
    return Pool([Peer(name=name, url=f"http://127.0.0.1:{port}/") for name, port in (("a", 1), ("b", 2), ("c", 3))])


def test_the_least_busy_is_picked() -> None:
    pool = make()
    a, b, _ = pool.members
    with a.working(), b.working():
        picked = pool.pick()
        assert picked is not None and picked.name == "c"
    assert a.in_flight == 0


def test_one_that_failed_is_passed_over_until_it_is_the_only_one() -> None:
    pool = make()
    a, b, c = pool.members
    a.failed("no answer")
    with b.working(), c.working():
        picked = pool.pick()
        assert picked is not None and picked.name in ("b", "c")
    assert pool.pick({b, c}) is a
    assert pool.pick({a, b, c}) is None


def test_names_are_found() -> None:
    pool = make()
    found = pool.named("b")
    assert found is not None and found.url == "http://127.0.0.1:2"
    assert pool.named("z") is None


def test_one_that_fell_silent_comes_after_one_that_failed() -> None:
    pool = make()
    a, b, c = pool.members
    a.fell_silent("said nothing")
    b.failed("no answer")
    assert a.silent and not b.silent
    assert pool.pick({c}) is b
    assert pool.pick({b, c}) is a
