"""Canaries first, then the rest in batches; a host that did not end well ends the run there."""

import pytest

from pdctl.errors import UsageError
from pdctl.provisioning.batches import bad, batches, pattern
from pdctl.provisioning.outcome import Change, Failure, HostResult

TEN = [f"n{number}" for number in range(10)]


@pytest.mark.parametrize(
    ("canary", "serial", "sizes"),
    [
        (None, None, [10]),
        (1, None, [1, 9]),
        (2, "3", [2, 3, 3, 2]),
        (None, "4", [4, 4, 2]),
        (1, "25%", [1, 2, 2, 2, 2, 1]),
        (None, "1%", [1] * 10),
        (None, "100%", [10]),
        (10, "1", [10]),
        (99, None, [10]),
        (1, "999999", [1, 9]),
    ],
)
def test_every_host_is_in_one_batch_and_the_order_stays(
    canary: int | None, serial: str | None, sizes: list[int]
) -> None:
    made = batches(TEN, canary, serial)
    assert [len(batch) for batch in made] == sizes
    assert [name for batch in made for name in batch] == TEN


@pytest.mark.parametrize("serial", ["0", "0%", "101%", "-1", "1.5", "", "many", "٣", "1000000", "5 %"])
def test_a_size_that_is_none_is_a_usage_error(serial: str) -> None:
    with pytest.raises(UsageError, match="is no size"):
        batches(TEN, None, serial)


@pytest.mark.parametrize("name", ["a:b", "a[1]", "a*", "a,b", "!a", "&a", "~a", "@a", "a b", "a#b", "a;b"])
def test_a_name_that_a_pattern_would_read_otherwise_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be run apart"):
        batches(["n1", name], 1, None)
    assert batches(["n1", name], None, None) == [("n1", name)]
    assert pattern(["n1", name]) is None
    assert pattern(["甲一", "n1.example"]) == "甲一,n1.example"


def test_only_a_host_that_ended_well_lets_others_begin() -> None:
    ok = HostResult("ok", "a", tasks=3, finished=True)
    changed = HostResult("changed", "a", tasks=3, changes=[Change("r", "t")], finished=True)
    others = [
        HostResult("partly", "a", tasks=3, problems=[{"role": "r"}], finished=True),
        HostResult("failed", "a", tasks=3, failure=Failure("r", "t", "m"), finished=True),
        HostResult("unreachable", "a", unreachable="No route", finished=True),
        HostResult("incomplete", "a", tasks=3),
        HostResult("untouched", "a"),
        HostResult("not verified", "a", finished=True, unverified="no answer"),
        HostResult("held", "a", finished=True, held_by="another run"),
    ]
    assert bad([ok, changed]) == []
    assert bad([ok, *others, changed]) == others
