"""`pdctl doctor --fix` on a real node: the plan, the roles, the second look."""

from pathlib import Path

import jsonschema
import pytest
from tests.lab.nodes import Lab
from tests.lab.site import Ran, Site

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SCHEMA = Path(__file__).parents[2] / "checks" / "pdchecks" / "findings.schema.json"
SELECTED = ("--select", "PD-SYSCTL", "--select", "PD-LOCALE", "--interval", "0")


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    lab.up(["n1", "n2"])
    return Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1", "n2"]})


@pytest.fixture(scope="module")
def refused(site: Site) -> Ran:
    """Without a terminal and without --yes."""
    return site.diagnose(site.ini(), *SELECTED, "--fix")


@pytest.fixture(scope="module")
def fixed(site: Site, refused: Ran) -> Ran:
    """n1 alone."""
    return site.diagnose(site.ini(), *SELECTED, "--limit", "n1", "--fix", "--yes")


def test_nothing_is_changed_where_nobody_can_be_asked_and_the_plan_is_shown(refused: Ran) -> None:
    assert refused.code == 2
    assert "n1, n2: roles locale, sysctl" in refused.stderr
    assert "give `--yes`" in refused.stderr


def test_what_the_roles_mend_is_mended_and_seen_to_be(fixed: Ran) -> None:
    import json

    assert fixed.code == 0, fixed.stderr
    jsonschema.validate(fixed.document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    fix = fixed.document["fix"]
    assert fix["runs"] == [{"nodes": ["n1"], "tags": ["locale", "sysctl"], "impact": "none"}]
    assert {entry["check"] for entry in fix["mended"]} >= {"PD-SYSCTL-001", "PD-LOCALE-001"}
    assert fix["left"] == fix["new"] == []
    assert not [f for f in fixed.document["findings"] if f["status"] in ("warn", "fail")]


def test_the_other_node_was_left_alone(site: Site, fixed: Ran) -> None:
    found = site.doctor(site.ini(), *SELECTED)
    bad = {node for (_, node, _), status in found.items() if status in ("warn", "fail")}
    assert bad == {"n2"}


def test_a_second_fix_finds_nothing_to_do(site: Site, fixed: Ran) -> None:
    again = site.diagnose(site.ini(), *SELECTED, "--limit", "n1", "--fix", "--yes")
    assert again.code == 0
    assert again.document["fix"]["ran"] is False
    assert again.document["fix"]["runs"] == []
