"""uname(1): with -r the release alone, with -srm or -a the system's name and release among others."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.host import Kernel
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

_RELEASE = re.compile(r"\d{1,2}\.\d{1,4}\S{0,100}")


def parse(block: Block) -> list[Fact] | Unknown:
    for line in block.lines[:4]:
        for word in line.split():
            if _RELEASE.fullmatch(word):
                return [Kernel(quote=block.quote(line), release=word)]
    return Unknown("uname printed no kernel release")


def _claims(block: Block) -> bool:
    return "uname" in words(block.command)


READER = Reader("uname", _claims, parse)
