"""What a reader is, and the few helpers that readers share."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pdchecks.evidence import LONGEST_LINE, Block, words
from pdchecks.facts.base import Fact
from pdchecks.unknown import Unknown

# Shapes are looked for in this much of an output: a tool shows itself early, and a log may be long.
SHAPE_WINDOW = 20_000
_FILE_HEAD = re.compile(r"==> (?P<path>/\S{1,300}) <==")


@dataclass(frozen=True, slots=True)
class Reader:
    """tool: the name people know. claims: whether the block is this tool's. parse: facts, or why there are none.
    events: it looks for events, or rows of a table, that may well be none: nothing found is no surprise.

    parse is pure and answers for any block: malformed output gives fewer facts or `Unknown`, never an exception.
    """

    tool: str
    claims: Callable[[Block], bool]
    parse: Callable[[Block], Iterable[Fact] | Unknown]
    events: bool = False


def runs(block: Block, *tools: str) -> bool:
    """Whether one of the tools stands in the command (as program, or as an argument of sudo, timeout, a pipe)."""
    return any(word in tools for word in words(block.command))


def looks_like(block: Block, shape: re.Pattern[str]) -> bool:
    return shape.search(block.output, 0, SHAPE_WINDOW) is not None


def mentions(block: Block, *parts: str) -> bool:
    """Whether one of the parts stands in the output: a hundredth of what a pattern costs where it does not."""
    return any(part in block.output for part in parts)


def lines_with(block: Block, mark: re.Pattern[str]) -> Iterator[str]:
    """The lines in which `mark` stands, cut as `Block.lines` are, for the price of one search of the whole output: a log
    is long, and hardly a line of it is wanted. `mark` matches within one line."""
    text, at = block.output, 0
    while match := mark.search(text, at):
        start = text.rfind("\n", at, match.start()) + 1 or at
        end = text.find("\n", match.end())
        at = len(text) if end < 0 else end
        yield text[start : min(at, start + LONGEST_LINE)]


def files(block: Block) -> Iterator[str]:
    """Lines `path:value`, however the files were printed: by grep, or by head and tail under `==> path <==`."""
    path = ""
    for line in block.lines:
        if head := _FILE_HEAD.fullmatch(line):
            path = head["path"]
        elif path and line:
            yield f"{path}:{line}"
        elif not path:
            yield line


def argument(command: str, option: str) -> str | None:
    """The word after `option`, e.g. the device after -d."""
    parts = words(command)
    for position, word in enumerate(parts[:-1]):
        if word == option:
            return parts[position + 1]
    return None


def subcommand(command: str, tool: str) -> str:
    """The first word behind the tool that is no option, e.g. `link` of `rdma -d link show`; empty where there is none."""
    parts = words(command)
    after = parts[parts.index(tool) + 1 :] if tool in parts else ()
    return next((word for word in after if word and not word.startswith("-")), "")


def integer(text: str | None, what: str) -> int | Unknown:
    """A decimal or 0x number. what: named in the reason."""
    try:
        return int((text or "").strip(), 0)
    except ValueError:
        return Unknown(f"{what} is not a number: {text!r}") if text else Unknown(f"{what} was not printed")


def given(text: str | None, what: str) -> str | Unknown:
    """The text, or Unknown where it is missing or empty."""
    return text.strip() if text and text.strip() else Unknown(f"{what} was not printed")
