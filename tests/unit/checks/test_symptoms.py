"""From what a person says to the causes that it truly has."""

import pytest
from tests.unit.checks.reports import MTU_AND_ITS_ERRORS, findings

from pdchecks.registry import BY_ID, CHECKS
from pdchecks.symptoms import Answer, explore, match, symptoms


@pytest.mark.parametrize(
    ("text", "symptom"),
    [
        ("first token never comes", "first-token"),
        ("Decode hangs, TTFT is infinite", "first-token"),
        ("requests take forever to start", "first-token"),
        ("prefill throughput low", "prefill-throughput"),
        ("memory grows with each chunk", "memory-grows"),
        ("empty data", "empty-data"),
        ("wrong tokens", "empty-data"),
        ("garbage output", "empty-data"),
        ("latency jitters", "latency-jitter"),
        ("P99 spikes", "latency-jitter"),
        ("CPU at 95 %", "cpu-busy"),
        ("connections time out", "connection-timeout"),
        ("errno 110", "connection-timeout"),
    ],
)
def test_words_lead_to_their_symptom(text: str, symptom: str) -> None:
    assert [found.id for found in match(text)] == [symptom]


def test_words_between_two_symptoms_name_both() -> None:
    assert {found.id for found in match("connections time out, and the latency jitters")} == {
        "connection-timeout",
        "latency-jitter",
    }


@pytest.mark.parametrize("text", ["", "   ", "the coffee is cold", "\N{SNOWMAN}", "disk full"])
def test_words_about_something_else_lead_nowhere(text: str) -> None:
    assert match(text) == ()


def test_every_symptom_is_found_by_its_own_phrases_and_names_checks_that_exist() -> None:
    assert len(symptoms()) == 7
    for symptom in symptoms():
        for phrase in (symptom.id, symptom.title, *symptom.phrases):
            assert symptom in match(phrase), phrase
        for cause in symptom.causes:
            assert cause.checks or cause.elsewhere, cause
            assert set(cause.checks) <= set(BY_ID), cause


def test_a_cause_that_the_findings_show_is_found_and_the_others_say_what_is_missing() -> None:
    (symptom,) = match("connections time out")
    explored = explore(symptom, findings(MTU_AND_ITS_ERRORS), CHECKS, nodes=2, whole=False)
    by_check = {answer.cause.checks[0]: answer for answer in explored.answers}
    assert by_check["PD-RDMA-002"].answer is Answer.FOUND
    assert {finding.check for finding in by_check["PD-RDMA-002"].findings} == {"PD-RDMA-002", "PD-MTU-003"}
    unseen = by_check["PD-NEIGH-001"]
    assert unseen.answer is Answer.UNKNOWN
    assert any("PD-NEIGH-001 saw nothing that it reads" in reason for reason in unseen.missing)


def test_a_check_that_was_left_out_is_named_as_missing() -> None:
    (symptom,) = match("connections time out")
    without = [check for check in CHECKS if check.id != "PD-NEIGH-001"]
    explored = explore(symptom, [], without, nodes=1, whole=False)
    missing = [reason for answer in explored.answers for reason in answer.missing]
    assert "PD-NEIGH-001 was left out by --select or --ignore" in missing
    assert any("look at both ends together" in reason for reason in missing)
