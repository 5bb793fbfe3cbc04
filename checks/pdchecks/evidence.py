"""Evidence: what commands printed on a node, as plain text blocks.

    === cmd: ibstat
    === rc: 0
    CA 'mlx5_0'
    ...
    === end

With several nodes in one text the command carries the node's name: `=== cmd: node-1: ibstat`. Lines outside blocks are
never read. A block ends at `=== end`, at the next `=== cmd:`, or with the text.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache

_HEAD = re.compile(r"=== cmd: ?(?P<command>.*)")
_RC = re.compile(r"=== rc: ?(?P<rc>-?\d{1,10})\s*")
_NODE = re.compile(r"(?P<node>[A-Za-z0-9][A-Za-z0-9._-]{0,252}): (?P<command>\S.*)")

# No tool prints a longer line that a reader reads by its shape; it bounds the work that a pattern can be made to do.
LONGEST_LINE = 4_000

_SEPARATORS = re.compile(r"[\s|;&()'\"]+")


@lru_cache(maxsize=4096)
def words(command: str) -> tuple[str, ...]:
    """The words of a command line, a path in place of a program reduced to the program."""
    parts = _SEPARATORS.split(command)
    return tuple(word.rsplit("/", 1)[-1] if word.startswith(("/", "./")) else word for word in parts)


@dataclass(frozen=True, slots=True)
class Quote:
    """Words of the evidence and the command that printed them."""

    command: str
    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """One command. rc: its exit status, or None where the evidence does not say. output: without a final newline.

    torn: the text ended within it.
    """

    command: str
    rc: int | None
    output: str
    node: str = ""
    torn: bool = False
    _lines: list[str] = field(default_factory=list, compare=False, repr=False)

    @property
    def lines(self) -> list[str]:
        """The output's lines, each cut at `LONGEST_LINE` characters."""
        if not self._lines and self.output:
            self._lines.extend(line[:LONGEST_LINE] for line in self.output.split("\n"))
        return self._lines

    def quote(self, text: str) -> Quote:
        """The words as text that any terminal and any JSON reader takes, at most 400 characters of them."""
        kept = text.strip("\r\n")[:400]
        return Quote(self.command, kept.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Evidence:
    """All blocks of one node, in the order they were printed."""

    node: str
    blocks: tuple[Block, ...]


def read_blocks(text: str) -> list[Block]:
    """Every block of `text`; an empty list where it has none."""
    blocks: list[Block] = []
    command: str | None = None
    rc: int | None = None
    lines: list[str] = []

    def close(*, torn: bool = False) -> None:
        if command is not None:
            node, bare = _split_node(command)
            blocks.append(Block(bare, rc, "\n".join(lines).rstrip("\n"), node, torn))

    for line in text.replace("\r\n", "\n").split("\n"):
        if not line.startswith("==="):
            if command is not None:
                lines.append(line)
        elif head := _HEAD.fullmatch(line):
            close()
            command, rc, lines = head["command"].strip(), None, []
        elif command is not None and rc is None and not lines and (status := _RC.fullmatch(line)):
            rc = int(status["rc"])
        elif line.rstrip() == "=== end":
            close()
            command = None
        elif command is not None:
            lines.append(line)
    close(torn=True)
    return blocks


def own_blocks(text: str) -> list[Block]:
    """The blocks of one node's collector: what looks like a node's name before a command is part of the command."""
    return [
        replace(block, command=f"{block.node}: {block.command}" if block.node else block.command, node="")
        for block in read_blocks(text)
    ]


def print_blocks(blocks: Iterable[Block]) -> str:
    """The text that `own_blocks` reads back to the same blocks."""
    lines: list[str] = []
    for block in blocks:
        lines.append(f"=== cmd: {block.command}")
        if block.rc is not None:
            lines.append(f"=== rc: {block.rc}")
        # As the collector does it: a line of output must not look like one of ours.
        lines += [f" {line}" if line.startswith("===") else line for line in block.output.split("\n") if block.output]
        if not block.torn:
            lines.append("=== end")
    return "\n".join(lines) + "\n"


def _split_node(command: str) -> tuple[str, str]:
    match = _NODE.fullmatch(command)
    return (match["node"], match["command"]) if match else ("", command)


def by_node(blocks: Iterable[Block], default: str) -> list[Evidence]:
    """Blocks grouped by node, in order of appearance. default: the node of blocks that name none."""
    groups: dict[str, list[Block]] = {}
    for block in blocks:
        groups.setdefault(block.node or default, []).append(block)
    return [Evidence(node, tuple(group)) for node, group in groups.items()]
