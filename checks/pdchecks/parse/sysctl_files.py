"""Lines of sysctl.d(5) files as `grep -nH` prints them: path, line, key = value. A leading dash ignores errors."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.host import SysctlLine
from pdchecks.parse.reader import Reader
from pdchecks.parse.sysctl import dotted
from pdchecks.unknown import Unknown

_LINE = re.compile(
    r"(?P<path>/\S{1,200}\.conf):(?P<line>\d{1,6}):\s*-?(?P<key>[a-z][\w./*-]{1,120})\s*=\s*(?P<value>.{0,400})"
)
_FILES = re.compile(r"/sysctl\.d/|/sysctl\.conf\b")


def parse(block: Block) -> list[Fact] | Unknown:
    return [
        SysctlLine(
            quote=block.quote(line.strip()),
            path=match["path"],
            line=int(match["line"]),
            key=dotted(match["key"]),
            value=" ".join(match["value"].split()),
        )
        for line in block.lines
        if (match := _LINE.fullmatch(line.rstrip()))
    ]


def _claims(block: Block) -> bool:
    return block.command.lstrip().startswith(("grep", "sh -c", "sudo")) and _FILES.search(block.command) is not None


READER = Reader("sysctl.d", _claims, parse)
