"""docs/article.md answers for every part of the article."""

import re
from pathlib import Path

ARTICLE = Path(__file__).parents[3] / "docs" / "article.md"
PARTS = [f"A{n}" for n in range(1, 20)]


def _rows() -> dict[str, list[str]]:
    rows = {}
    for line in ARTICLE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and re.fullmatch(r"A\d+", cells[0]):
            assert cells[0] not in rows, f"{cells[0]} stands twice"
            rows[cells[0]] = cells[1:]
    return rows


def test_every_part_has_a_row_with_claim_truth_and_answer() -> None:
    rows = _rows()
    assert list(rows) == PARTS
    for part, cells in rows.items():
        assert len(cells) == 3, part
        assert all(cells[2:]), f"{part}: what pdctl does is empty"
        assert all(len(cell) > 5 for cell in cells), part


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([\w./-]+)\)", ARTICLE.read_text(encoding="utf-8")):
        assert (ARTICLE.parent / target).exists(), target
