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


def test_nothing_of_the_machine_it_was_written_on_is_in_the_project() -> None:
    top = str(ROOT.parent) + "/"
    if len(top) < 5:
        pytest.skip("the checkout lies at the root of the file system")
    found = subprocess.run(["git", "grep", "-nF", top], cwd=ROOT, capture_output=True, text=True)
    assert found.stdout == ""
