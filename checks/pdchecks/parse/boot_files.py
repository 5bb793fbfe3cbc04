"""Which files of services, udev rules and scripts speak of tools that set QoS: `grep -rl` of our collector."""

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.qos import QosAtBoot
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

# The pattern is written so that it finds no line of its own, and no reader of the tool itself takes the block.
MARK = "mln[x]_qos"


def parse(block: Block) -> list[Fact] | Unknown:
    if block.rc not in (0, 1, 2, None):
        return Unknown(f"the files were not searched: {' '.join(block.output.split())[:200]}")
    paths = tuple(line.strip() for line in block.lines if line.startswith("/"))
    return [QosAtBoot(quote=block.quote("\n".join(paths[:8]) or "(no file)"), paths=paths)]


READER = Reader("boot files", lambda block: MARK in block.command, parse, events=True)
