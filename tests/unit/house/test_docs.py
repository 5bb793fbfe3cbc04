"""Documents lead somewhere and name only commands that exist."""

import re
import subprocess
from pathlib import Path

import pytest
import typer

from pdctl.app import app

ROOT = Path(__file__).parents[3]
PAGES = (
    [ROOT / name for name in ("README.md",)] + sorted((ROOT / "docs").rglob("*.md")) + sorted(ROOT.glob("*/README.md"))
)


def _page(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_page)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "article.md"], ids=_page)
def test_commands_exist(page: Path) -> None:
    """The article's page may name what a release does not have yet, and says so."""
    root = typer.main.get_command(app)
    commands = root.commands  # type: ignore[attr-defined]
    for name, inner in re.findall(
        r"(?:`|\$ )pdctl ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", page.read_text(encoding="utf-8")
    ):
        assert name in commands, f"pdctl {name}"
        below = getattr(commands[name], "commands", None)
        if below is not None and inner:
            assert inner in below, f"pdctl {name} {inner}"


@pytest.mark.parametrize("page", PAGES, ids=_page)
def test_tests_that_a_page_names_exist(page: Path) -> None:
    for file, test in re.findall(r"`(?:[\w/]+/)?(?:(test_\w+\.py)|(test_\w+))`", page.read_text(encoding="utf-8")):
        if file:
            assert list((ROOT / "tests").rglob(file)), file
        else:
            found = subprocess.run(["git", "grep", "-qE", rf"def {test}\(", "--", "tests"], cwd=ROOT)
            assert found.returncode == 0, test


def test_no_file_names_the_place_of_this_checkout() -> None:
    found = subprocess.run(["git", "grep", "-nF", f"{ROOT}/"], cwd=ROOT, capture_output=True, text=True)
    assert found.stdout == ""
