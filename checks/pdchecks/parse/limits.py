"""Resource limits: ulimit -a (bash, dash, zsh wording), /proc/PID/limits, pam_limits files, systemd's defaults."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.host import Limit
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

# ulimit's unit differs: bash "(kbytes, -l)", dash "locked memory (kbytes)", busybox "-l: locked memory (kb)".
_ULIMIT = re.compile(
    r"(?:-[ln]: )?\s*(?P<what>max locked memory|locked memory|locked-in-memory size|open files|nofiles?|file descriptors|lockedmem)\b.{0,40}?\s(?P<value>unlimited|\d{1,20})\s*"
)
_PROC = re.compile(
    r"Max (?P<what>locked memory|open files)\s+(?P<soft>unlimited|\d{1,20})\s+(?P<hard>unlimited|\d{1,20})\b.*"
)
_SYSTEMD = re.compile(r"(?P<name>(?:Default)?Limit(?:MEMLOCK|NOFILE))(?P<soft>Soft)?=(?P<value>infinity|\d{1,20})")
_SHAPE = re.compile(
    r"max locked memory|^Limit\s+Soft Limit|^(?:Default)?LimitMEMLOCK(?:Soft)?=|locked memory", re.MULTILINE
)
# systemd prints an unset limit as the largest 64-bit number.
_INFINITE = 2**63
_PID = re.compile(r"/proc/(?P<pid>\w{1,10})/limits")


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    pid = _PID.search(block.command)
    whose = "this session" if pid is None or pid["pid"] == "self" else f"process {pid['pid']}"
    for line in block.lines:
        if proc := _PROC.fullmatch(line.rstrip()):
            name = "memlock" if proc["what"] == "locked memory" else "nofile"
            facts.append(_limit(block, line, name, whose, _count(proc["soft"]), _count(proc["hard"])))
        elif ulimit := _ULIMIT.fullmatch(line.rstrip()):
            locked = "lock" in ulimit["what"]
            value = _count(ulimit["value"])
            if locked and value is not None:
                value *= 1024
            facts.append(_limit(block, line, "memlock" if locked else "nofile", whose, value, value))
    facts += _systemd(block)
    return facts


def _systemd(block: Block) -> list[Fact]:
    found: dict[str, dict[str, tuple[int | None, str]]] = {}
    for line in block.lines:
        if match := _SYSTEMD.fullmatch(line.strip()):
            side = "soft" if match["soft"] else "hard"
            found.setdefault(match["name"], {})[side] = (_count(match["value"]), line)
    facts: list[Fact] = []
    for name, sides in found.items():
        hard, line = sides.get("hard") or sides["soft"]
        soft, _ = sides.get("soft") or (hard, line)
        whose = "systemd services" if name.startswith("Default") else f"unit {_unit(block)}"
        facts.append(_limit(block, line, "memlock" if "MEMLOCK" in name else "nofile", whose, soft, hard))
    return facts


def _unit(block: Block) -> str:
    return next((word for word in block.command.split() if "." in word and not word.startswith("-")), "(not named)")


def _count(text: str) -> int | None:
    """The number, or None for no limit."""
    number = int(text) if text.isdecimal() else _INFINITE
    return None if number >= _INFINITE else number


def _limit(block: Block, line: str, name: str, scope: str, soft: int | None, hard: int | None) -> Limit:
    return Limit(quote=block.quote(" ".join(line.split())), name=name, scope=scope, soft=soft, hard=hard)


def _claims(block: Block) -> bool:
    return "ulimit" in block.command or _PID.search(block.command) is not None or looks_like(block, _SHAPE)


READER = Reader("limits", _claims, parse)
