"""`pdctl pair` on described pairs, one file each in tests/data/pairs: the verdict, every field that is not equal, what the
engines would do by themselves, and the fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from pdctl.app import app

DATA = Path(__file__).parents[2] / "data"
CASES = sorted((DATA / "pairs").glob("*.yml"))
SCHEMA = json.loads(
    (Path(__file__).parents[3] / "checks" / "pdchecks" / "pair" / "pair.schema.json").read_text(encoding="utf-8")
)
EXIT = {"equal": 0, "convertible": 0, "warn": 0, "unknown": 3, "fatal": 1}


def judge(path: Path) -> tuple[int, dict[str, Any]]:
    """Through the command, as docs/pairs.md says."""
    result = CliRunner().invoke(app, ["pair", str(path), "-o", "json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_a_described_pair_gets_its_verdict_and_its_fix(path: Path) -> None:
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    expect = case["expect"]
    code, verdict = judge(path)
    jsonschema.validate(verdict, SCHEMA)
    differing = {one["field"]: one["outcome"] for one in verdict["fields"] if one["outcome"] != "equal"}
    assert differing == expect["fields"]
    assert verdict["verdict"] == expect["verdict"]
    assert verdict["engines_would"] == expect["engines_would"]
    assert code == EXIT[expect["verdict"]]
    fixes = "\n".join(one["fix"] for one in verdict["fields"] if one["fix"])
    for part in expect.get("fix", []):
        assert part in fixes


def test_at_least_thirty_pairs_and_twelve_reports_are_described() -> None:
    cases = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in CASES]
    assert len(cases) >= 30
    assert len({report for case in cases for report in case.get("report", [])}) >= 12
    assert len({case["case"] for case in cases}) == len(cases)


def test_no_verdict_says_only_that_something_differs() -> None:
    for path in CASES:
        _, verdict = judge(path)
        for one in verdict["fields"]:
            if one["outcome"] in ("fatal", "warn"):
                assert one["reason"] and one["fix"] and one["side"], (path.name, one)
            if one["outcome"] == "unknown":
                values = one["prefill"], one["decode"]
                assert one["reason"] and ("unknown" in values or "was not read" in one["reason"]), (path.name, one)
            assert "mismatch" not in json.dumps(one)
