"""A text as a linter sees it: commands and settings without comments, whole where lines continue, places kept.

In Markdown, code is what stands in fences, indented by four, or between backticks; the rest is prose, where a sentence that
warns against something is no advice to do it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

# A longer line is data, not advice; it bounds the work of a pattern.
LONGEST_LINE = 2_000

_FENCE = re.compile(r"\s{0,8}(?:```|~~~)")
_MARKDOWN = (".md", ".markdown", ".rst", ".adoc")
_WARNING = re.compile(
    r"\b(?:never|not|don'?t|doesn'?t|isn'?t|avoid|wrong|false|instead of|no such|without|remove[sd]?|obsolete|stale|"
    r"deprecated|no longer|nothing|unlike|rather than)\b",
    re.IGNORECASE,
)
# A hash begins a comment at the start of a word outside quotes.
_COMMENT = re.compile(r"""(?P<quoted>"(?:\\.|[^"\\])*"|'[^']*')|(?:^|(?<=\s))#.*""")


@dataclass(frozen=True, slots=True)
class Hit:
    """line and column from 1; text: the words that are wrong; right: what belongs there, if this place knows better."""

    line: int
    column: int
    text: str
    right: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A logical line. starts: offsets at which its physical lines begin, and their numbers."""

    text: str
    prose: bool
    starts: tuple[tuple[int, int], ...]

    def hit(self, offset: int, text: str, right: str = "") -> Hit:
        begin, number = self.starts[bisect_right(self.starts, (offset, 1 << 60)) - 1]
        return Hit(number, offset - begin + 1, text.strip(), right)


@dataclass(frozen=True)
class Text:
    """name: where it comes from, as a person would name it; its ending tells the kind."""

    name: str
    content: str

    @cached_property
    def markdown(self) -> bool:
        lines = self.content.split("\n", 400)
        return PurePosixPath(self.name).suffix.lower() in _MARKDOWN or any(_FENCE.match(line) for line in lines)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Logical lines without comments, in their order; empty ones are left out."""
        return tuple(line for line in _joined(self._physical()) if line.text.strip())

    def find(self, pattern: re.Pattern[str], *, prose: bool = True) -> Iterator[tuple[Line, re.Match[str]]]:
        """Every match, in prose only where no word before it in its sentence warns against it."""
        for line in self.lines:
            if line.prose and not prose:
                continue
            for match in pattern.finditer(line.text):
                if not line.prose or not _warned(line.text, match):
                    yield line, match

    def _physical(self) -> Iterator[tuple[int, str, bool]]:
        """(number, text, prose) of each line; comments blanked in code, so that columns stay."""
        fenced = False
        for number, raw in enumerate(self.content.splitlines(), 1):
            line = raw[:LONGEST_LINE].replace("\t", " ")
            if self.markdown and _FENCE.match(line):
                fenced = not fenced
                continue
            prose = self.markdown and not fenced and not line.startswith("    ")
            yield number, line if prose else _without_comment(line), prose


def _without_comment(line: str) -> str:
    if line.lstrip().startswith((";", "//")):
        return ""
    return _COMMENT.sub(lambda match: match[0] if match["quoted"] else "", line)


def _joined(lines: Iterator[tuple[int, str, bool]]) -> Iterator[Line]:
    text, starts = "", []
    for number, line, prose in lines:
        starts.append((len(text), number))
        text += line
        if not prose and text.rstrip().endswith("\\") and len(text) < LONGEST_LINE:
            kept = text.rstrip()
            text = kept[:-1] + " " * (len(text) - len(kept) + 1)
            continue
        yield Line(text, prose, tuple(starts))
        text, starts = "", []
    if text:
        yield Line(text, False, tuple(starts))


def _warned(line: str, match: re.Match[str]) -> bool:
    sentence = max(line.rfind(". ", 0, match.start()), line.rfind("; ", 0, match.start()), -1) + 1
    end = line.find(". ", match.end())
    after = line[match.end() : end if end >= 0 else len(line)]
    return bool(_WARNING.search(line[sentence : match.start()]) or _WARNING.search(after))
