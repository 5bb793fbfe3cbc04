"""A value of the policy stands in the policy file and nowhere else in the product."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
POLICY = "roles/policy/files/policy.yml"
PRODUCT = ("cli", "engine", "checks", "roles", "playbooks", "inventories", "scripts", "README.md")
# Smaller numbers are ordinary ones (a priority, a DSCP, a percentage): finding them elsewhere proves nothing.
SMALLEST_TELLING_NUMBER = 1000
IDENTIFIERS = {"parts", "prefix"}
"""Keys whose numbers name a thing (a PCI device) and expect nothing of it."""


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    else:
        yield path, value


def _telling() -> Iterator[tuple[str, str]]:
    """(last word of the key, the value as text)."""
    policy = yaml.safe_load((ROOT / POLICY).read_text(encoding="utf-8"))
    for path, leaf in _leaves(policy):
        if IDENTIFIERS & set(path) or isinstance(leaf, bool):
            continue
        key = re.split(r"[._]", path[-1])[-1]
        for word in str(leaf).split():
            is_version = re.fullmatch(r"\d+\.\d+\.\d+", word)
            if is_version or (word.isdigit() and int(word) >= SMALLEST_TELLING_NUMBER):
                yield key, word


def _lines_with(word: str) -> list[str]:
    pattern = rf"(^|[^0-9._]){re.escape(word)}([^0-9._]|\.$|$)"
    argv = ["git", "grep", "-nIE", pattern, "--", *PRODUCT, f":!{POLICY}"]
    found = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode in (0, 1), found.stderr
    return found.stdout.splitlines()


@pytest.mark.parametrize(("key", "word"), sorted(set(_telling())))
def test_no_policy_value_stands_a_second_time(key: str, word: str) -> None:
    lines = _lines_with(word)
    if word.isdigit() and int(word).bit_count() == 1:
        # A power of two is also a page, a buffer or a bound; it is the policy's where its key stands beside it.
        lines = [line for line in lines if key in line.split(":", 2)[2].lower()]
    assert lines == []
