"""Resource limits: ulimit (bash, dash, zsh wording), prlimit, /proc/PID/limits, systemd's defaults, and the limit that
a program names when it meets it."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.host import HugePagesRefused, Limit
from pdchecks.parse.reader import Reader, looks_like, mentions
from pdchecks.unknown import Unknown

# ulimit's unit differs: bash "(kbytes, -l)", dash "locked memory (kbytes)", busybox "-l: locked memory (kb)".
_ULIMIT = re.compile(
    r"(?:-[ln]: )?\s*(?P<what>max locked memory|locked memory|locked-in-memory size|open files|nofiles?|file descriptors|lockedmem)\b.{0,40}?\s(?P<value>unlimited|\d{1,20})\s*"
)
_PROC = re.compile(
    r"Max (?P<what>locked memory|open files)\s+(?P<soft>unlimited|\d{1,20})\s+(?P<hard>unlimited|\d{1,20})\b.*"
)
_SYSTEMD = re.compile(r"(?P<name>(?:Default)?Limit(?:MEMLOCK|NOFILE))(?P<soft>Soft)?=(?P<value>infinity|\d{1,20})")
_ID = re.compile(r"^Id=(?P<name>[\w@:.\\-]{1,120})$", re.MULTILINE)
# `ulimit -l` or `-n` alone prints nothing but the value.
_ALONE = re.compile(r"\bulimit (?:-[SH] ?)?-?[SH]?(?P<flag>[ln])\b")
_PRLIMIT = re.compile(
    r"(?P<name>MEMLOCK|NOFILE)\s.{5,60}?\s(?P<soft>unlimited|\d{1,20})\s+(?P<hard>unlimited|\d{1,20})(?:\s+\w+)?\s*"
)
# UCX src/ucs/sys/sys.c, ucs_sys_check_memlock_limit_append_msg; libibverbs src/init.c, check_memlock_limit.
_NAMED = re.compile(
    r"max locked memory.{0,40}?\(current: (?P<kib>\d{1,15}) kbytes\)|RLIMIT_MEMLOCK is (?P<bytes>\d{1,20}) bytes"
)
# Whatever the program: the flag or the words, and that it failed (mmap(2), shmget(2), UCX, Mooncake, DPDK).
_HUGE_REFUSED = re.compile(
    r"(?:MAP_HUGETLB|SHM_HUGETLB|hugetlb|huge ?page).{0,160}?(?:fail|annot allocate|not permitted|no free)"
    r"|(?:fail|annot allocate|no free).{0,120}?(?:MAP_HUGETLB|SHM_HUGETLB|hugetlb|huge ?page)",
    re.IGNORECASE,
)
_SHAPE = re.compile(
    r"\(current: \d+ kbytes\)|RLIMIT_MEMLOCK is|^MEMLOCK\s|max locked memory|^Limit\s+Soft Limit|^(?:Default)?Limit(?:MEMLOCK|NOFILE)(?:Soft)?=|locked memory",
    re.MULTILINE,
)
# systemd prints an unset limit as the largest 64-bit number.
_INFINITE = 2**63
_PID = re.compile(r"/proc/(?P<pid>\w{1,10})/limits")


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    pid = _PID.search(block.command)
    whose = "this session" if pid is None or pid["pid"] == "self" else f"process {pid['pid']}"
    alone = _ALONE.search(block.command)
    for line in block.lines:
        if alone and (value_alone := re.fullmatch(r"\s*(unlimited|\d{1,20})\s*", line)):
            facts.append(_in_shell_units(block, line, alone["flag"] == "l", whose, _count(value_alone[1])))
        elif named := _NAMED.search(line[:1000]):
            count = int(named["bytes"]) if named["bytes"] else int(named["kib"]) * 1024
            facts.append(_limit(block, line.strip(), "memlock", "the process that logged it", count, count))
        elif _HUGE_REFUSED.search(line[:1000]):
            facts.append(HugePagesRefused(quote=block.quote(line.strip()), words=line.strip()[:200]))
        elif prlimit := _PRLIMIT.fullmatch(line):
            facts.append(
                _limit(block, line, prlimit["name"].lower(), whose, _count(prlimit["soft"]), _count(prlimit["hard"]))
            )
        elif proc := _PROC.fullmatch(line.rstrip()):
            name = "memlock" if proc["what"] == "locked memory" else "nofile"
            facts.append(_limit(block, line, name, whose, _count(proc["soft"]), _count(proc["hard"])))
        elif ulimit := _ULIMIT.fullmatch(line.rstrip()):
            locked = "lock" in ulimit["what"]
            facts.append(_in_shell_units(block, line, locked, whose, _count(ulimit["value"])))
    facts += _systemd(block)
    return facts


def _in_shell_units(block: Block, line: str, locked: bool, whose: str, count: int | None) -> Limit:
    """A shell counts locked memory in KiB."""
    value = count * 1024 if locked and count is not None else count
    return _limit(block, line, "memlock" if locked else "nofile", whose, value, value)


def _systemd(block: Block) -> list[Fact]:
    """One paragraph a unit, which `Id=` names; the manager's defaults and a single unit have no `Id=`."""
    facts: list[Fact] = []
    for paragraph in block.output.split("\n\n"):
        found: dict[str, dict[str, tuple[int | None, str]]] = {}
        named = _ID.search(paragraph)
        for line in paragraph.split("\n"):
            if match := _SYSTEMD.fullmatch(line.strip()):
                side = "soft" if match["soft"] else "hard"
                found.setdefault(match["name"], {})[side] = (_count(match["value"]), line)
        for name, sides in found.items():
            hard, line = sides.get("hard") or sides["soft"]
            soft, _ = sides.get("soft") or (hard, line)
            unit = named["name"] if named else _unit(block)
            whose = "systemd services" if name.startswith("Default") else f"unit {unit}"
            facts.append(_limit(block, line, "memlock" if "MEMLOCK" in name else "nofile", whose, soft, hard))
    return facts


def _unit(block: Block) -> str:
    """`systemctl show [-p ...] UNIT`; a name without a suffix is a service."""
    parts = block.command.split()
    after = parts[parts.index("show") + 1 :] if "show" in parts else []
    names = [
        w for w, before in zip(after, ["", *after], strict=False) if w[0] != "-" and before not in ("-p", "--property")
    ]
    return next((name if "." in name else f"{name}.service" for name in names), "(not named)")


def _count(text: str) -> int | None:
    """The number, or None for no limit."""
    number = int(text) if text.isdecimal() else _INFINITE
    return None if number >= _INFINITE else number


def _limit(block: Block, line: str, name: str, scope: str, soft: int | None, hard: int | None) -> Limit:
    return Limit(quote=block.quote(" ".join(line.split())), name=name, scope=scope, soft=soft, hard=hard)


def _claims(block: Block) -> bool:
    return (
        "limit" in block.command
        or _PID.search(block.command) is not None
        or looks_like(block, _SHAPE)
        or (mentions(block, "uge", "UGE") and looks_like(block, _HUGE_REFUSED))
    )


READER = Reader("limits", _claims, parse, events=True)
