"""pdctl kv echo: one line that says how a KV transfer went."""

import re

from pdchecks.active.marker import peer_of
from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.kv import KvEcho
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_SHAPE = re.compile(r"^kv echo: (?:sent|received|failed)", re.MULTILINE)
_LINE = re.compile(
    r"^kv echo: (?:(?:sent|received) (?P<size>\d{1,12}) bytes in \d{1,9} frames.{0,200}?(?:in (?P<seconds>\d{1,6}\.\d{1,9}) s)?"
    r"|failed: (?P<failure>.{1,400}))$",
    re.MULTILINE,
)


def parse(block: Block) -> list[Fact] | Unknown:
    line = _LINE.search(block.output[:20_000])
    if line is None:
        return Unknown(
            f"pdctl kv echo printed no result: {(block.output.strip().splitlines() or ['nothing'])[-1][:120]}"
        )
    return [
        KvEcho(
            quote=block.quote(line[0]),
            size=int(line["size"] or 0),
            seconds=float(line["seconds"] or 0),
            failure=line["failure"] or "",
            to=peer_of(block.command),
            by=peer_of(block.command, served=True),
        )
    ]


def _claims(block: Block) -> bool:
    return "pdctl kv echo" in block.command or looks_like(block, _SHAPE)


READER = Reader("pdctl", _claims, parse)
