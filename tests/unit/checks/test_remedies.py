"""Which roles mend what, where, and what moved."""

from dataclasses import replace

from tests.unit.checks.reports import findings

from pdchecks.finding import Finding, Impact, Status, Waived
from pdchecks.remedies import moved, plan

# Formats: procfs(5), and grep -H over /proc/sys as the collector prints it.
BAD = """
=== cmd: {node}: grep -H . /proc/sys/net/ipv4/conf/all/rp_filter
=== rc: 0
/proc/sys/net/ipv4/conf/all/rp_filter:1
=== end
=== cmd: {node}: cat /proc/self/limits
=== rc: 0
Limit                     Soft Limit           Hard Limit           Units
Max locked memory         65536                65536                bytes
=== end
"""


def _found(*nodes: str) -> list[Finding]:
    return findings("".join(BAD.replace("{node}", node) for node in nodes))


def test_nodes_with_the_same_needs_share_a_run() -> None:
    made = plan(_found("n1", "n2"))
    (batch,) = made.batches
    assert batch.nodes == ("n1", "n2")
    assert batch.tags == ("limits", "sysctl")
    assert batch.impact is Impact.RESTART_ENGINE


def test_a_node_gets_only_the_roles_that_it_needs() -> None:
    seen = [f for f in _found("n1", "n2") if not (f.subject.node == "n2" and f.check.startswith("PD-LIMIT"))]
    assert {batch.nodes: batch.tags for batch in plan(seen).batches} == {
        ("n1",): ("limits", "sysctl"),
        ("n2",): ("sysctl",),
    }


def test_a_remedy_that_disturbs_is_refused_where_an_engine_is_active() -> None:
    made = plan(_found("n1", "n2"), serving=["n1"])
    assert {(finding.check, finding.subject.node) for finding in made.refused} == {("PD-LIMIT-001", "n1")}
    assert {batch.nodes: batch.tags for batch in made.batches}[("n1",)] == ("sysctl",)


def test_waived_faults_and_passes_need_nothing_and_what_no_role_mends_is_by_hand() -> None:
    waived = [replace(finding, waived=Waived("known", "2027-01-01")) for finding in _found("n1")]
    assert plan(waived).batches == ()
    no_role = [replace(f, remedy=replace(f.remedy, role=None)) for f in _found("n1") if f.remedy]
    made = plan(no_role)
    assert made.batches == ()
    assert len(made.by_hand) == len(no_role)


def test_what_moved_is_told_by_check_and_subject() -> None:
    before = _found("n1", "n2")
    after = [replace(f, status=Status.PASS) if f.check == "PD-SYSCTL-002" else f for f in before]
    what = moved(before, after)
    assert {finding.check for finding in what.mended} == {"PD-SYSCTL-002"}
    assert {finding.check for finding in what.left} == {"PD-LIMIT-001"}
    assert what.new == ()
    assert {finding.check for finding in moved(after, before).new} == {"PD-SYSCTL-002"}


def test_a_node_that_could_not_be_looked_at_again_is_not_mended() -> None:
    before = _found("n1", "n2")
    what = moved(before, [finding for finding in before if finding.subject.node == "n2"])
    assert what.mended == ()
    assert {finding.subject.node for finding in what.left} == {"n1", "n2"}
