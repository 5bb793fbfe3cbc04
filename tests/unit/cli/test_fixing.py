"""`--fix` without an inventory mends this host, and never without somebody's word."""

import io
from dataclasses import replace

import pytest
from tests.unit.checks.reports import findings

from pdchecks.finding import Impact
from pdchecks.remedies import plan
from pdctl.errors import UsageError
from pdctl.fixing import _inventory, agree
from pdctl.inventory import load_inventory

RP_FILTER = (
    "=== cmd: gpu-7: grep -H . /proc/sys/net/ipv4/conf/all/rp_filter\n=== rc: 0\n"
    "/proc/sys/net/ipv4/conf/all/rp_filter:1\n=== end\n"
)


def test_this_host_is_an_inventory_of_its_own_under_the_name_of_its_findings() -> None:
    with _inventory(None, plan(findings(RP_FILTER))) as path:
        (host,) = load_inventory(path)
    assert (host.name, host.connection) == ("gpu-7", "local")
    assert not path.exists()


def test_without_a_terminal_only_yes_is_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(findings(RP_FILTER))
    assert all(batch.impact is Impact.NONE for batch in made.batches)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(UsageError, match="no terminal"):
        agree(made, yes=False)
    assert agree(replace(made), yes=True)
