"""How long a node has been up: /proc/uptime, and uptime(1) of procps and busybox."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.host import Uptime
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

_PROC = re.compile(r"(?P<seconds>\d{1,10}\.\d{1,3}) \d{1,12}\.\d{1,3}\s*")
_SAID = re.compile(
    r"\bup (?:(?P<days>\d{1,5}) days?, {1,3})?(?:(?P<hours>\d{1,2}):(?P<minutes>\d{2})|(?P<alone>\d{1,2}) (?:min|mins|minutes)\b)"
)


def parse(block: Block) -> list[Fact] | Unknown:
    for line in block.lines[:4]:
        if match := _PROC.fullmatch(line):
            return [Uptime(quote=block.quote(line), seconds=float(match["seconds"]))]
        if match := _SAID.search(line):
            days, hours = int(match["days"] or 0), int(match["hours"] or 0)
            minutes = int(match["minutes"] or match["alone"] or 0)
            seconds = float(((days * 24 + hours) * 60 + minutes) * 60)
            return [Uptime(quote=block.quote(line.strip()), seconds=seconds)]
    return Unknown("the uptime was not told")


READER = Reader("uptime", lambda block: "uptime" in words(block.command), parse)
