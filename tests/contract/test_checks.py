"""What every check owes: one ID, a document, evidence on which it speaks and evidence on which it is content."""

import re
from pathlib import Path

import jsonschema
import pytest

from pdchecks.documentation import HEADS, explanation
from pdchecks.evidence import by_node, read_blocks
from pdchecks.finding import Finding, Status, document
from pdchecks.policy import Policy, read_layer, resolve
from pdchecks.registry import CHECKS
from pdchecks.run import diagnose

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "checks"
POLICY = resolve([read_layer(ROOT / "roles" / "policy" / "files" / "policy.yml")])
SCHEMA = ROOT / "checks" / "pdchecks" / "findings.schema.json"
FIXTURES = sorted(DATA.glob("*/*.txt"))
ALL = {check.id: check for check in CHECKS}


def _policy(node: str) -> Policy:
    return POLICY


def _findings(path: Path, *ids: str) -> list[Finding]:
    evidence = by_node(read_blocks(path.read_text(encoding="utf-8")), "node")
    return diagnose(evidence, _policy, [ALL[check] for check in ids] if ids else None)


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def test_an_id_stands_once_and_well_formed() -> None:
    ids = [check.id for check in CHECKS]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"PD-[A-Z0-9]+-\d{3}", check) for check in ids)


def test_every_fixture_belongs_to_a_check() -> None:
    assert {path.parent.name for path in FIXTURES} <= set(ALL)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_a_check_has_its_document_with_the_fixed_heads(check: object) -> None:
    text = explanation(check)  # type: ignore[arg-type]
    assert text.splitlines()[0].startswith(f"# {check.id}: ")  # type: ignore[attr-defined]
    assert tuple(re.findall(r"^## (.*)$", text, flags=re.MULTILINE)) == HEADS
    bodies = re.split(r"^## .*$", text, flags=re.MULTILINE)[1:]
    assert all(body.strip() for body in bodies)


@pytest.mark.parametrize("check", sorted(ALL))
def test_a_check_has_a_fixture_that_contents_it_and_one_that_does_not(check: str) -> None:
    statuses = {path.name.split("-")[0] for path in (DATA / check).glob("*.txt")}
    assert statuses & {"pass", "info"}, statuses
    assert statuses & {"fail", "warn", "unknown", "info"} - (statuses if statuses == {"pass"} else set()), statuses
    assert len(statuses) > 1 or statuses == {"info"}, statuses


@pytest.mark.parametrize("path", FIXTURES, ids=_name)
def test_a_fixture_names_its_source_and_gets_its_status(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert re.match(r"# source: \S.{8,}", first), first
    wanted = Status(path.name.split("-")[0])
    findings = _findings(path, path.parent.name)
    assert wanted in {finding.status for finding in findings}, [(f.status.value, f.summary) for f in findings]
    if wanted is Status.PASS:
        bad = [finding for finding in findings if finding.status.rank > Status.INFO.rank]
        assert not bad, [(f.status.value, f.summary) for f in bad]


@pytest.mark.parametrize("path", FIXTURES, ids=_name)
def test_what_is_unknown_is_not_told_as_if_it_were_so(path: Path) -> None:
    for finding in _findings(path):
        if finding.status is Status.UNKNOWN:
            assert not finding.summary.startswith(ALL[finding.check].title), finding.summary
            assert "\n" not in finding.summary, finding.summary


@pytest.mark.parametrize("path", FIXTURES, ids=_name)
def test_all_checks_together_give_a_valid_document_without_contradiction(path: Path) -> None:
    import json

    findings = _findings(path)
    jsonschema.validate(document(findings), json.loads(SCHEMA.read_text(encoding="utf-8")))
    said: dict[tuple[str, str], Status] = {}
    for finding in findings:
        assert "broke and said nothing" not in finding.summary, finding.summary
        key = (finding.check, str(finding.subject))
        assert said.setdefault(key, finding.status) is finding.status, key


@pytest.mark.parametrize("path", FIXTURES, ids=_name)
def test_a_fault_says_why_and_what_to_do(path: Path) -> None:
    for finding in _findings(path, path.parent.name):
        if finding.status in (Status.FAIL, Status.WARN):
            assert finding.cause, finding.summary
            assert finding.evidence, finding.summary
            assert finding.verify, finding.summary
            assert finding.remedy is not None, finding.summary
