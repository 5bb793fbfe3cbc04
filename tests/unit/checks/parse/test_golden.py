"""What each reader sees in real output: tests/data/readers/<tool>/<name>.txt beside <name>.facts."""

from pathlib import Path

import pytest
from tests.unit.checks.parse.facts_text import facts_text

from pdchecks.evidence import read_blocks

DATA = Path(__file__).parents[3] / "data" / "readers"
OUTPUTS = sorted(DATA.glob("*/*.txt"))


def test_there_are_outputs_to_read() -> None:
    assert len(OUTPUTS) > 30


@pytest.mark.parametrize("path", OUTPUTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_tools_output_gives_these_facts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# source: "), "an output names where its form comes from"
    assert facts_text(read_blocks(text)) == path.with_suffix(".facts").read_text(encoding="utf-8")
