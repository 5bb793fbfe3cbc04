"""Kernel modules: lsmod, modinfo -p, modprobe -c and files of modprobe.d."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.host import LoadedModules, ModuleOption, ModuleParameters, ModuleRefused
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_NAME = r"[A-Za-z0-9_-]{1,60}"
_PARAMETER = re.compile(rf"(?:parm:\s+)?(?P<name>{_NAME}):.*")
OPTIONS_LINE = re.compile(rf"(?:\S{{1,200}}\.conf:)?\s*options\s+(?P<module>{_NAME})\s+(?P<rest>\S.*)")
_LSMOD = re.compile(rf"(?P<module>{_NAME})\s+\d{{1,10}}\s+\d{{1,6}}\b.*")
_REFUSED = re.compile(
    rf"(?:modprobe|insmod): (?:ERROR|FATAL|error):? (?:could not insert(?: module)? '?(?P<module>{_NAME})(?:\.ko\S{{0,8}})?'?: |"
    rf"Module (?P<missing>{_NAME}) )(?P<words>.{{3,120}})"
)
_GREP = re.compile(
    r"(?:(?P<extended>egrep|grep -(?:E|iE|Ei))|grep(?: -i)?) (?P<quote>['\"]?)(?P<words>[\w|\\-]{1,400})(?P=quote)"
)
_SHAPE = re.compile(
    r"^modprobe: (?:ERROR|FATAL)|^Module\s+Size\s+Used by|^(?:\S+\.conf:)?options \S+ \w+=", re.MULTILINE
)


def parse(block: Block) -> list[Fact] | Unknown:
    parts = words(block.command)
    if "modinfo" in parts:
        return _parameters(block, parts)
    facts: list[Fact] = []
    loaded: set[str] = set()
    for line in block.lines:
        if refused := _REFUSED.match(line):
            facts.append(
                ModuleRefused(
                    quote=block.quote(line),
                    module=canonical(refused["module"] or refused["missing"]),
                    words=refused["words"].strip(),
                )
            )
        elif options := OPTIONS_LINE.match(line):
            facts += _options(block, line, options)
        elif row := _LSMOD.fullmatch(line):
            loaded.add(canonical(row["module"]))
    if loaded or "lsmod" in parts:
        if block.rc not in (0, None):
            return Unknown(f"the modules were not listed: {block.output.strip()[:200]}")
        listed = block.quote(f"{len(loaded)} module{'s' if len(loaded) != 1 else ''}")
        facts.append(LoadedModules(quote=listed, names=frozenset(loaded), filter=_filter(block.command)))
    return facts


def _filter(command: str) -> tuple[str, ...] | None:
    """What a pasted `lsmod | grep ...` kept; only plain words and their alternatives are understood."""
    _, piped, through = command.partition("|")
    if not piped:
        return None
    grep = _GREP.fullmatch(through.strip())
    wanted = grep["words"].split("|" if grep["extended"] else r"\|") if grep else []
    return tuple(map(canonical, wanted)) if all(re.fullmatch(_NAME, word) for word in wanted) else ()


def canonical(module: str) -> str:
    """The kernel takes - and _ in a module's name for the same."""
    return module.replace("-", "_")


def _parameters(block: Block, parts: tuple[str, ...]) -> list[Fact]:
    after = parts[parts.index("modinfo") + 1 :]
    module = canonical(next((word for word in reversed(after) if re.fullmatch(_NAME, word) and word[0] != "-"), ""))
    if not module:
        return []
    if block.rc not in (0, None) or "not found" in block.output:
        why = Unknown(f"module {module} is not installed for this kernel: {block.output.strip()[:160]}")
        return [ModuleParameters(quote=block.quote(block.output.strip()), module=module, names=why)]
    names = frozenset(match["name"] for line in block.lines if (match := _PARAMETER.match(line)))
    return [ModuleParameters(quote=block.quote(" ".join(sorted(names)) or "(none)"), module=module, names=names)]


def _options(block: Block, line: str, match: re.Match[str]) -> list[Fact]:
    return [
        ModuleOption(quote=block.quote(line.strip()), module=canonical(match["module"]), name=name, value=value)
        for name, _, value in (word.partition("=") for word in match["rest"].split())
        if name and not name.startswith("#")
    ]


def compares_with_image(block: Block) -> bool:
    """Whether it is `find ... -newer IMAGE`: modprobe itself tells what options there are."""
    return "-newer" in words(block.command)


def _claims(block: Block) -> bool:
    named = any(w in ("lsmod", "modinfo", "modprobe", "modprobe.d") for w in words(block.command))
    return not compares_with_image(block) and (named or looks_like(block, _SHAPE))


READER = Reader("modules", _claims, parse)
