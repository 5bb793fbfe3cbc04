"""sysctl(8), /proc/sys files by cat or grep, and `echo N > /proc/sys/...; cat ...`. An absent or refused key is a fact with
the kernel's reason: a network namespace lacks some, and a container may not read others."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.host import Sysctl
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_PAIR = re.compile(r"(?P<key>[a-z][\w-]{0,31}(?:[./][\w.:@-]{1,64}){1,10}) = (?P<value>.{0,400})")
_FILE = re.compile(r"/proc/sys/(?P<path>[\w./:@-]{3,200}):(?P<value>.{0,400})")
_ABSENT = re.compile(r"(?:sysctl|cat|grep): .*?/proc/sys/(?P<path>[\w./:@-]{3,200})['’\"]?: (?P<why>.{1,200})")
_BUSY = re.compile(
    r"sysctl: (?:error: )?(?P<why>.{0,120}?)'?(?P<key>[a-z]\w{1,20}(?:\.[\w-]{1,64}){1,8})'?(?P<more>.{0,60})"
)
_PATH = re.compile(r"/proc/sys/(?P<path>[\w./:@-]{3,200})")
_SHAPE = re.compile(r"^(?:net|kernel|vm|fs|dev)(?:\.[\w-]+){1,8} = |^(?:sysctl|cat): .*/proc/sys/", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    for line in block.lines:
        if absent := _ABSENT.match(line):
            facts.append(_fact(block, line, dotted(absent["path"]), Unknown(absent["why"].strip())))
        elif pair := _PAIR.fullmatch(line.rstrip()):
            facts.append(_fact(block, line, dotted(pair["key"]), " ".join(pair["value"].split())))
        elif file := _FILE.fullmatch(line.rstrip()):
            facts.append(_fact(block, line, dotted(file["path"]), " ".join(file["value"].split())))
        elif refused := _BUSY.match(line):
            why = f"{refused['why']}{refused['more']}".strip(" '")
            facts.append(_fact(block, line, refused["key"], Unknown(why or "refused")))
    paths = {match["path"] for match in _PATH.finditer(block.command)}
    value = block.output.strip()
    if not facts and len(paths) == 1 and value and len(block.lines) == 1:
        facts.append(_fact(block, value, dotted(paths.pop()), " ".join(value.split())))
    keys = [word for word in words(block.command) if re.fullmatch(r"[a-z]+(?:[./][\w:@-]+)+", word)]
    if not facts and "-n" in block.command.split() and len(keys) == 1 and value:
        facts.append(_fact(block, value, dotted(keys[0]), " ".join(value.split())))
    return facts


def dotted(path: str) -> str:
    """net/ipv4/neigh/eth0.5/x and net.ipv4.neigh.eth0.5.x in one spelling: slashes where the kernel has folders."""
    return path.replace("/", ".")


def _fact(block: Block, line: str, key: str, value: str | Unknown) -> Sysctl:
    return Sysctl(quote=block.quote(line.strip()), key=key, value=value)


def _claims(block: Block) -> bool:
    return "sysctl" in words(block.command) or "/proc/sys/" in block.command or looks_like(block, _SHAPE)


READER = Reader("sysctl", _claims, parse)
