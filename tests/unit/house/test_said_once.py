"""A value of the policy stands in the policy file and nowhere else in the product."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
POLICY = "roles/policy/files/policy.yml"
PRODUCT = ("cli", "engine", "checks", "roles", "playbooks", "inventories", "README.md")
# Numbers below this are ordinary numbers (a priority, a DSCP): finding them elsewhere proves nothing.
SMALLEST_TELLING_NUMBER = 2048


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


def _telling(leaf: Any) -> Iterator[str]:
    if isinstance(leaf, bool):
        return
    if isinstance(leaf, int) and leaf >= SMALLEST_TELLING_NUMBER:
        yield str(leaf)
    elif isinstance(leaf, str):
        if re.fullmatch(r"\d+\.\d+\.\d+", leaf):
            yield leaf
        else:
            yield from (word for word in leaf.split() if word.isdigit() and int(word) >= SMALLEST_TELLING_NUMBER)


def test_no_policy_value_stands_a_second_time() -> None:
    policy = yaml.safe_load((ROOT / POLICY).read_text(encoding="utf-8"))
    values = sorted({text for leaf in _leaves(policy) for text in _telling(leaf)})
    assert values, "the policy holds no telling value: this test would pass on anything"
    pattern = r"(^|[^0-9.])(" + "|".join(re.escape(value) for value in values) + r")([^0-9.]|\.$|$)"
    argv = ["git", "grep", "-nIE", pattern, "--", *PRODUCT, f":!{POLICY}"]
    found = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode in (0, 1), found.stderr
    assert found.stdout.splitlines() == []
