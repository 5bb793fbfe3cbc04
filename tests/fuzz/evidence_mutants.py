"""Damaged tool outputs without end: recorded ones with lines lost, doubled, cut, mixed, with other numbers and letters.

Seeded: the same numbers give the same inputs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from pdchecks.evidence import Block, read_blocks

_DATA = Path(__file__).parents[1] / "data"
_NUMBERS = ("0", "-1", "9" * 40, "0x", "0xffffffffffffffff", "1e309", "٣", "", "nan", "4294967295", "255.255.65535")
_LETTERS = "\x00\t\r\x1b[]{}()<>:=,;|'\"\\/_-.0aZ \u00a0é中\udc80"
_LONG_BYTES = 1 << 18
_UNITS = ("{line}\n", "{line}", "{line} ", " \n", "\n", "a: 1\n", "[", "{", "0:", "<", "=== cmd: x\n")


def seeds() -> list[Block]:
    """Every block of the fixtures, in a fixed order."""
    return [
        block
        for path in sorted(_DATA.rglob("*.txt"))
        for block in read_blocks(path.read_text(encoding="utf-8", errors="surrogateescape"))
    ]


def mutants(seed: int) -> Iterator[Block]:
    chance = random.Random(seed)
    known = seeds()
    commands = sorted({block.command for block in known})
    while True:
        base = chance.choice(known)
        if chance.random() < 0.002:
            line = chance.choice(base.output.split("\n") or [""])
            unit = chance.choice(_UNITS).replace("{line}", line) or "\n"
            text = (unit * (_LONG_BYTES // len(unit) + 1))[:_LONG_BYTES]
        else:
            lines = base.output.split("\n")[:80]
            for _ in range(chance.choice((1, 1, 2, 4, 10))):
                _change(chance, lines, known)
            text = "\n".join(lines)
        command = base.command if chance.random() < 0.8 else chance.choice((*commands, "", "log"))
        yield Block(command, chance.choice((base.rc, base.rc, None, 0, 1, 124, 127)), text)


def _change(chance: random.Random, lines: list[str], known: list[Block]) -> None:
    if not lines:
        lines.append("")
    at = chance.randrange(len(lines))
    line = lines[at]
    cut = chance.randrange(len(line) + 1)
    kind = chance.randrange(7)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, line)
    elif kind == 2:
        lines[at] = line[:cut]
    elif kind == 3:
        lines[at] = line[:cut] + "".join(chance.choices(_LETTERS, k=chance.choice((1, 1, 5, 300)))) + line[cut:]
    elif kind == 4:
        digits = [place for place, letter in enumerate(line) if letter.isdigit()]
        if digits:
            place = chance.choice(digits)
            lines[at] = line[:place] + chance.choice(_NUMBERS) + line[place + 1 :]
    elif kind == 5:
        lines[at] = chance.choice(chance.choice(known).output.split("\n"))
    else:
        other = chance.randrange(len(lines))
        lines[at], lines[other] = lines[other], line
