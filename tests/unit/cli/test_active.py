"""Active tests on this host's loopback: two ends really talk, and one that is not there is named."""

import io
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.unit.checks.reports import POLICY

from pdchecks.active.plan import KV_ECHO, make
from pdchecks.evidence import Evidence
from pdchecks.finding import Status
from pdchecks.nodefacts import NodeFacts, gather
from pdchecks.registry import BY_ID
from pdchecks.run import of_node
from pdctl.active import running
from pdctl.active.asking import asked_and_run
from pdctl.errors import UsageError
from pdctl.evidence_source import Source
from pdctl.inventory import Host, Inventory

A, B = ("127.0.0.1", "127.0.0.2")
HOSTS = {name: Host(name, address, 22, None, None, "local", {}, ()) for name, address in (("a", A), ("b", B))}


@contextmanager
def _programs(monkeypatch: pytest.MonkeyPatch, where: str) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(running, "_own_programs", lambda: where)
        yield


def _judged() -> dict[str, list[tuple[Status, str]]]:
    plan = make([NodeFacts(name, ()) for name in HOSTS], lambda _: POLICY, {"a": A, "b": B}, {KV_ECHO}, ())
    found = running.run(plan, HOSTS, connect_s=60)
    return {
        name: [
            (finding.status, finding.summary)
            for finding in of_node(
                gather(Evidence(name, tuple(block for node, block in found if node == name))), POLICY, [BY_ID[KV_ECHO]]
            )
        ]
        for name in HOSTS
    }


def test_kv_goes_from_end_to_end_both_ways_and_every_frame_is_verified() -> None:
    for told in _judged().values():
        ((status, summary),) = told
        assert status is Status.PASS, summary
        assert summary.startswith("16777216 bytes of KV arrived, and every frame was verified")


def test_an_end_without_pdctl_is_unknown_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with _programs(monkeypatch, "/usr/bin:/bin"):
        judged = _judged()
    assert judged["a"] == [(Status.UNKNOWN, "no KV was sent: b did not listen: pdctl is not installed")]


def test_without_a_terminal_only_yes_is_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    seen = Source(tuple(Evidence(name, ()) for name in HOSTS))
    hosts = Inventory(Path("hosts.ini"), tuple(HOSTS.values()))
    with pytest.raises(UsageError, match="no terminal"):
        asked_and_run(seen, hosts, lambda _: POLICY, {KV_ECHO}, connect_s=5, yes=False, while_serving=False)
