"""arp(8) of net-tools: the BSD style of `arp -a`, and the table of `arp -n`."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.net import Neighbour
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_BSD = re.compile(
    r"\S{1,100} \((?P<address>[0-9.]{7,15})\) at (?P<lladdr>\S{1,60})(?: \[\w{1,12}\])?(?P<flags>(?: PERM)?)"
    r" on (?P<netdev>\S{1,32})\s*"
)
_ROW = re.compile(
    r"(?P<address>[0-9.]{7,15})\s+(?:\w{1,12}\s+(?P<lladdr>[0-9a-fA-F:]{11,60})\s+(?P<flags>[A-Z]{1,4})|\(incomplete\))\s+"
    r"(?:\S{1,20}\s+)?(?P<netdev>[A-Za-z]\S{0,31})\s*"
)
_SHAPE = re.compile(
    r"^Address\s+HWtype\s+HWaddress\s|^\S+ \([0-9.]{7,15}\) at (?:<incomplete>|[0-9a-f:]{11,})", re.MULTILINE
)


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    for line in block.lines:
        match = _BSD.fullmatch(line) or _ROW.fullmatch(line)
        if match:
            facts.append(
                Neighbour(
                    quote=block.quote(" ".join(line.split())),
                    address=match["address"],
                    netdev=match["netdev"],
                    states=_states(match["lladdr"], match["flags"]),
                )
            )
    return facts


def _states(lladdr: str | None, flags: str | None) -> tuple[str, ...]:
    """The kernel's word, as far as arp tells it: of a known address not whether it is fresh."""
    if lladdr is None or "incomplete" in lladdr:
        return ("INCOMPLETE",)
    return ("PERMANENT",) if flags and "M" in flags else ()


READER = Reader("arp", lambda block: "arp" in words(block.command) or looks_like(block, _SHAPE), parse, events=True)
