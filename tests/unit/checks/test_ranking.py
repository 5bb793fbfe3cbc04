"""Findings stand under the fault that brings them about."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.checks.reports import MTU_AND_ITS_ERRORS, POLICY, findings

from pdchecks.evidence import by_node, read_blocks
from pdchecks.explains import EXPLAINS
from pdchecks.finding import Finding, Status, Subject, Waived
from pdchecks.ranking import Group, rank
from pdchecks.registry import BY_ID
from pdchecks.run import diagnose

DATA = Path(__file__).parents[2] / "data" / "checks"


def _flat(group: Group) -> list[str]:
    return [group.finding.check, *(check for below in group.explained for check in _flat(below))]


def _faults(groups: list[Group]) -> list[Group]:
    return [group for group in groups if group.finding.fault]


def test_an_mtu_fault_explains_the_completion_errors_that_it_causes() -> None:
    (root,) = _faults(rank(findings(MTU_AND_ITS_ERRORS)))
    assert root.finding.check == "PD-MTU-002"
    assert set(_flat(root)) == {"PD-MTU-002", "PD-MTU-003", "PD-RDMA-002"}
    assert all(below.why for below in root.explained)


def test_a_completion_error_of_another_kind_stays_a_root() -> None:
    text = MTU_AND_ITS_ERRORS.replace("local length error", "remote operation error")
    roots = {group.finding.check for group in _faults(rank(findings(text)))}
    assert roots == {"PD-MTU-002", "PD-RDMA-002"}


def test_a_fault_of_another_device_of_the_node_explains_nothing() -> None:
    text = MTU_AND_ITS_ERRORS.replace("mlx5_0/1: QP", "mlx5_7/1: QP")
    text = text.replace("active_mtu:\t\t4096 (5)", "active_mtu:\t\t1024 (3)")
    alone = [group for group in _faults(rank(findings(text))) if group.finding.check == "PD-RDMA-002"]
    assert alone or all("mlx5_7" not in str(group.finding.subject) for group in rank(findings(text)))


def test_a_waived_cause_explains_nothing_and_is_no_root_cause() -> None:
    seen = findings(MTU_AND_ITS_ERRORS)
    waived = [
        replace(finding, waived=Waived("known", "2027-01-01")) if finding.check.startswith("PD-MTU") else finding
        for finding in seen
    ]
    assert [group.finding.check for group in _faults(rank(waived))] == ["PD-RDMA-002"]


def test_every_finding_stands_in_exactly_one_place() -> None:
    seen = findings(MTU_AND_ITS_ERRORS)
    groups = rank(seen)
    assert sorted(check for group in groups for check in _flat(group)) == sorted(finding.check for finding in seen)


def test_what_explains_more_comes_first_and_passes_come_last() -> None:
    groups = rank(findings(MTU_AND_ITS_ERRORS))
    assert groups[0].size == 3
    assert groups[-1].finding.status is Status.PASS


def test_a_symptoms_order_comes_before_the_size_of_a_group() -> None:
    seen = findings(MTU_AND_ITS_ERRORS.replace("local length error", "remote operation error"))
    assert rank(seen, {"PD-RDMA-002": 0})[0].finding.check == "PD-RDMA-002"
    assert rank(seen, {"PD-MTU-003": 0})[0].finding.check == "PD-MTU-002"


def test_a_thousand_nodes_are_ranked_in_seconds() -> None:
    seen = [
        replace(finding, subject=Subject(f"{finding.subject.node}-{number}", finding.subject.object))
        for finding in findings(MTU_AND_ITS_ERRORS)
        for number in range(1000)
    ]
    groups = rank(seen)
    assert sum(group.size for group in groups) == len(seen)


def test_the_table_names_checks_that_exist_and_has_no_circle() -> None:
    assert {check for edge in EXPLAINS for check in (edge.cause, edge.effect)} <= set(BY_ID)
    effects: dict[str, set[str]] = {}
    for edge in EXPLAINS:
        effects.setdefault(edge.cause, set()).add(edge.effect)

    def reach(check: str, path: tuple[str, ...]) -> None:
        assert check not in path, " -> ".join((*path, check))
        for effect in effects.get(check, ()):
            reach(effect, (*path, check))

    for cause in effects:
        reach(cause, ())


@pytest.mark.parametrize("words", sorted({(edge.effect, edge.words) for edge in EXPLAINS if edge.words}))
def test_a_check_really_says_the_words_that_an_edge_asks_for(words: tuple[str, tuple[str, ...]]) -> None:
    check, any_of = words
    said: list[Finding] = []
    for path in sorted((DATA / check).glob("*.txt")):
        evidence = by_node(read_blocks(path.read_text(encoding="utf-8")), "node")
        said += diagnose(evidence, lambda node: POLICY, [BY_ID[check]])
    assert any(word in finding.summary for finding in said for word in any_of), [f.summary for f in said]
