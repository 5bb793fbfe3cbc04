"""The document of a check: the Markdown file beside its module."""

from importlib.resources import files

from pdchecks.check import Check

HEADS = ("What it looks at", "Why it matters", "How to verify", "How to fix", "Sources")


def explanation(check: Check) -> str:
    """The document as it stands in the file."""
    module = check.module.rsplit(".", 1)[-1]
    return (files("pdchecks") / "checks" / f"{module}.md").read_text(encoding="utf-8")
