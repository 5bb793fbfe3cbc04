"""Text that a person pasted: a terminal with its prompts, outputs one below the other, a log.

A line that a prompt begins names its command, and the node where the prompt does. Without prompts each tool's output is
known by its shape (`shapes.py`). What no reader takes is listed with its place, never dropped."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from pdchecks.evidence import LONGEST_LINE, Block
from pdchecks.intake.prompts import is_empty, prompt, upper_line
from pdchecks.intake.shapes import ANY_HEAD, LOG, LOG_COMMAND, SHAPES, SHORTEST_HEAD, Shape, of_json

MAX_JSON = 4 << 20
# A terminal with more commands than this is not read further: what follows is listed as one leftover.
MAX_PIECES = 5_000
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]{0,16}[A-Za-z]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[()][A-Z0-9])")
_JSON = re.compile(r"\s*(?:\[\s*\{?|\{)\s*|\s*(?:\[\s*\{|\{\s*\").*[\]}]\s*")
_FENCE = re.compile(r"\s*(?:```|~~~)\w{0,20}\s*")


@dataclass(frozen=True, slots=True)
class Leftover:
    """Lines that nothing recognises. line: of the first, from 1. text: the first, cut. lines: how many."""

    line: int
    text: str
    lines: int


@dataclass(slots=True)
class _Piece:
    """command: None while nobody knows what printed it."""

    begin: int
    command: str | None = None
    host: str = ""
    shape: Shape | None = None
    log: bool = False
    prompted: bool = False
    lines: list[str] = field(default_factory=list)


def read_pasted(text: str) -> tuple[list[Block], list[Leftover]]:
    """The blocks in it, and what is left. A block carries a node's name only where prompts name more than one."""
    from pdchecks.parse import READERS

    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    lines = [line[:LONGEST_LINE] for line in text.replace("\r\n", "\n").split("\n")]
    pieces = list(islice(_pieces(lines), MAX_PIECES + 1))
    hosts = {piece.host for piece in pieces if piece.host}
    blocks: list[Block] = []
    left: list[Leftover] = []
    for piece in pieces[:MAX_PIECES]:
        output = "\n".join(piece.lines).rstrip("\n")
        if not output.strip():
            continue
        node = piece.host if len(hosts) > 1 else next(iter(hosts), "")
        block = Block(piece.command or "", None, output, node)
        if any(reader.claims(block) for reader in READERS):
            blocks.append(block if block.command else Block("(pasted)", None, output, node))
        else:
            left.append(_leftover(piece))
    for piece in pieces[MAX_PIECES:]:
        text = f"all after the first {MAX_PIECES} commands and outputs"
        left.append(Leftover(piece.begin, text, len(lines) - piece.begin + 1))
    return blocks, left


def _leftover(piece: _Piece) -> Leftover:
    at = next(number for number, line in enumerate(piece.lines) if line.strip())
    shown = piece.command if piece.prompted and piece.command else piece.lines[at].strip()
    return Leftover(
        piece.begin + (0 if piece.prompted else at), shown[:200], sum(map(bool, map(str.strip, piece.lines)))
    )


def _pieces(lines: list[str]) -> Iterator[_Piece]:
    piece = _Piece(1)
    host, skip, tried = "", 0, 0
    for number, line in enumerate(lines, 1):
        if skip >= number:
            continue
        if not line or line.isspace():
            piece.lines.append(line)
            continue
        if ("~~~" in line or "```" in line) and _FENCE.fullmatch(line):
            continue
        named = upper_line(line, lines[number]) if number < len(lines) else None
        if named is not None:
            yield piece
            host = named
            piece = _Piece(number + 1, host=host)
            continue
        found = prompt(line)
        if found is not None:
            yield piece
            host = host if found.shell is None else found.shell
            piece = _Piece(number, found.command, host if found.node is None else found.node, prompted=True)
        elif piece.prompted and is_empty(line):
            yield piece
            piece = _Piece(number + 1, host=host)
        elif piece.prompted and piece.command:
            piece.lines.append(line)
        elif number > tried and line.lstrip()[:1] in ("[", "{") and _JSON.fullmatch(line):
            command, tried = _json(lines, number)
            if command:
                yield piece
                yield _Piece(number, command, host, lines=lines[number - 1 : tried])
                piece, skip = _Piece(tried + 1, host=host), tried
            else:
                piece.lines.append(line)
        else:
            fresh = _next(piece, line, number, host)
            if fresh is not piece:
                yield piece
                piece = fresh
            piece.lines.append(line)
    yield piece


def _next(piece: _Piece, line: str, number: int, host: str) -> _Piece:
    """The piece that the line belongs to: the one that is open, or a new one."""
    if piece.shape is not None and (piece.shape.head.match(line) or piece.shape.body.match(line)):
        return piece
    telling = len(line) >= SHORTEST_HEAD
    if telling and LOG.match(line):
        return piece if piece.log else _Piece(number, LOG_COMMAND, host, log=True)
    for shape in SHAPES if telling and ANY_HEAD.match(line) else ():
        if match := shape.head.match(line):
            named = {name: value for name, value in match.groupdict().items() if value}
            return _Piece(number, shape.command.format(**named), host, shape)
    if piece.log or piece.command is None:
        return piece
    return _Piece(number, None, host)


def _json(lines: list[str], number: int) -> tuple[str, int]:
    """The command that prints the JSON value that begins in that line, and the number of the line where it ends.

    Where there is none, an empty command, and the line up to which no second look is worth it.
    """
    closing = {"[": "]", "{": "}"}[lines[number - 1].strip()[0]]
    length, end = 0, number - 1
    while end < len(lines) and length < MAX_JSON:
        length += len(lines[end])
        end += 1
        if (end == number and lines[end - 1].rstrip().endswith(closing)) or lines[end - 1].rstrip() == closing:
            try:
                return of_json(json.loads("\n".join(lines[number - 1 : end]))) or "", end
            except (ValueError, RecursionError):
                break
    return "", end
