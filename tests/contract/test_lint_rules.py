"""What every lint rule owes: one ID, a document, a text that it flags and one like it that it does not."""

import re
from pathlib import Path

import pytest

from pdchecks.lint.registry import RULES
from pdchecks.lint.rule import HEADS, Rule
from pdchecks.lint.run import lint
from pdchecks.policy import read_layer, resolve

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "lint"
POLICY = resolve([read_layer(ROOT / "roles" / "policy" / "files" / "policy.yml")])
FIXTURES = sorted(DATA.glob("*/*"))


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _flagged(path: Path) -> set[str]:
    return {advice.rule.id for advice in lint(path.name, path.read_text(encoding="utf-8"), POLICY)}


def test_an_id_stands_once_and_every_fixture_belongs_to_a_rule() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids)) >= 20
    assert all(re.fullmatch(r"PD-LINT-\d{3}", one) for one in ids)
    assert {path.parent.name for path in FIXTURES} == set(ids)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_its_document_and_both_fixtures(rule: Rule) -> None:
    lines = rule.document.splitlines()
    assert lines[0] == f"# {rule.id}: {rule.title}"
    assert tuple(re.findall(r"^## (.*)$", rule.document, flags=re.MULTILINE)) == HEADS
    assert rule.why
    assert rule.sources
    assert rule.right(POLICY)
    kinds = {path.stem for path in (DATA / rule.id).iterdir()}
    assert {"bad", "good"} <= kinds


@pytest.mark.parametrize("path", [p for p in FIXTURES if p.stem.startswith("bad")], ids=_name)
def test_bad_advice_is_flagged(path: Path) -> None:
    assert path.parent.name in _flagged(path)


@pytest.mark.parametrize("path", [p for p in FIXTURES if p.stem.startswith("good")], ids=_name)
def test_the_right_way_is_not_flagged_by_any_rule(path: Path) -> None:
    assert _flagged(path) == set()
