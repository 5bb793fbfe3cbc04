"""date(1) of the collector, with the time at which its script was sent: `date +%s   # asked at 1796040000`."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.host import ClockAsked
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

_COMMAND = re.compile(r"date \+%s\s+# asked at (?P<asked>\d{1,12})\s*")


def parse(block: Block) -> list[Fact] | Unknown:
    asked, told = _COMMAND.fullmatch(block.command), block.output.strip()
    if asked is None or not re.fullmatch(r"\d{1,12}", told):
        return Unknown("date printed no seconds")
    quote = block.quote(told)
    return [ClockAsked(quote=quote, node_s=int(told), asked_s=int(asked["asked"]))]


def _claims(block: Block) -> bool:
    return _COMMAND.fullmatch(block.command) is not None


READER = Reader("date", _claims, parse)
