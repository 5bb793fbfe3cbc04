"""The doctor's formats, over one real report: each is what its reader expects."""

import json
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.checks.reports import MTU_AND_ITS_ERRORS, findings

from pdchecks.finding import Incomplete, Status
from pdchecks.registry import CHECKS
from pdchecks.report import Report, report_document
from pdchecks.symptoms import explore, match
from pdchecks.waivers import Waiver, apply
from pdctl.exit_codes import ExitCode
from pdctl.render import junit, nagios, prom
from pdctl.render.doctor import exit_status
from pdctl.render.findings import render
from pdctl.render.formats import ReportFormat

SCHEMA = Path(__file__).parents[3] / "checks" / "pdchecks" / "findings.schema.json"
DOWN = Incomplete("decode-2", "Connection refused | by \x1b[31mpeer", "start sshd")


def _report(*waivers: Waiver) -> Report:
    marked, uses = apply(waivers, findings(MTU_AND_ITS_ERRORS), date(2026, 12, 1))
    (symptom,) = match("connections time out")
    return Report(marked, (DOWN,), uses, (explore(symptom, marked, CHECKS, nodes=2, whole=False),))


def _waiver(check: str, until: date = date(2027, 1, 1)) -> Waiver:
    return Waiver(check, "*", "known", until)


def _only(report: Report, *statuses: Status) -> Report:
    return Report(tuple(finding for finding in report.findings if finding.status in statuses))


def test_json_holds_causes_waivers_and_symptoms_as_the_schema_says() -> None:
    report = _report(_waiver("PD-FW-*"), _waiver("PD-MTU-002", date(2026, 1, 1)))
    made = report_document(report)
    jsonschema.validate(made, json.loads(SCHEMA.read_text(encoding="utf-8")))
    (cause,) = made["root_causes"]
    assert made["findings"][cause["finding"]]["check"] == "PD-MTU-002"
    (below,) = cause["explains"]
    (last,) = below["explains"]
    assert [made["findings"][one["finding"]]["check"] for one in (below, last)] == ["PD-MTU-003", "PD-RDMA-002"]
    assert [waiver["expired"] for waiver in made["waivers"]] == [False, True]
    answers = made["symptoms"][0]["causes"]
    found = [answer for answer in answers if answer["answer"] == "found"]
    assert all("PD-" in made["findings"][place]["check"] for answer in found for place in answer["findings"])


def test_junit_counts_failures_errors_and_skips() -> None:
    root = ElementTree.fromstring(junit.render(_report(_waiver("PD-MTU-002")), Status.WARN).encode())
    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == ("2", "1", "1")
    assert int(root.get("tests", "0")) == len(root.findall(".//testcase"))
    failed = {case.get("classname") for case in root.iter("testcase") if case.find("failure") is not None}
    assert failed == {"PD-MTU-003", "PD-RDMA-002"}
    skipped = root.find(".//skipped")
    assert skipped is not None
    assert "waived until 2027-01-01: known" in skipped.get("message", "")


def test_nagios_is_one_line_with_performance_data_and_the_plugins_exit_code() -> None:
    report = _report()
    line = nagios.render(report, Status.FAIL)
    assert "\n" not in line
    text, bar, numbers = line.partition(" | ")
    assert text.startswith("PDCTL CRITICAL - 2 fail, 1 warn")
    assert bar
    assert "|" not in numbers
    assert "fail=2;;;0" in numbers.split()
    assert len(line) < 1024
    assert exit_status(report, ReportFormat.NAGIOS, Status.FAIL) == 2


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (_only(_report(), Status.PASS), 0),
        (_only(_report(), Status.PASS, Status.WARN), 1),
        (_only(_report(), Status.PASS, Status.FAIL), 2),
        (Report(()), 3),
        (Report(_only(_report(), Status.PASS).findings, (DOWN,)), 3),
        (Report(_report(_waiver("*")).findings), 0),
    ],
)
def test_nagios_states(report: Report, code: int) -> None:
    assert exit_status(report, ReportFormat.NAGIOS, Status.FAIL) == code


def test_prometheus_reads_the_textfile() -> None:
    report = _report(_waiver("PD-MTU-002"))
    families = {family.name: family for family in text_string_to_metric_families(prom.render(report) + "\n")}
    samples = {tuple(sorted(s.labels.items())): s.value for s in families["pdctl_doctor_findings"].samples}
    assert samples[(("node", "decode-1"), ("status", "fail"))] == 2
    assert samples[(("node", "decode-1"), ("status", "warn"))] == 0
    reached = {s.labels["node"]: s.value for s in families["pdctl_doctor_node_reached"].samples}
    assert reached == {"decode-1": 1, "prefill-1": 1, "decode-2": 0}
    waived = {s.labels["node"]: s.value for s in families["pdctl_doctor_waived"].samples}
    assert waived["decode-1"] == 1
    worst = {(s.labels["node"], s.labels["check"]): s.value for s in families["pdctl_doctor_check_status"].samples}
    assert worst["decode-1", "PD-RDMA-002"] == Status.FAIL.rank


def test_the_table_indents_what_a_cause_explains_and_shows_what_is_waived() -> None:
    text = "\n".join(line for line, _ in render(_report(_waiver("PD-FW-*")), verbose=False, width=110))
    assert "\n    └ FAIL    PD-MTU-003" in text
    assert "1 root cause behind 3 faults" in text
    assert "INCOMPLETE  decode-2" in text
    assert "SYMPTOM  connections time out" in text
    expired = _report(_waiver("PD-MTU-002", date(2026, 1, 1)))
    text = "\n".join(line for line, _ in render(expired, verbose=False, width=110))
    assert "EXPIRED  the waiver of PD-MTU-002" in text
    assert "WARN    PD-MTU-002" in text
    waived = _report(_waiver("PD-MTU-002"))
    text = "\n".join(line for line, _ in render(waived, verbose=False, width=110))
    assert "WAIVED  PD-MTU-002" in text
    assert "1 waived" in text


def test_waived_findings_do_not_fail_the_run() -> None:
    waived = Report(_report(_waiver("*")).findings)
    assert exit_status(waived, ReportFormat.JSON, Status.FAIL) == ExitCode.DONE
    assert exit_status(Report(_report().findings), ReportFormat.JSON, Status.FAIL) == ExitCode.FINDINGS
