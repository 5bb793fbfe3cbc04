"""locale(1): -a, charmap, the system's locale file, localectl(1), and programs that could not use the locale they were
given. With a missing locale, charmap still exits 0, warns on stderr and prints the C locale's ANSI_X3.4-1968."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.host import Charmap, LocaleList, LocaleRefused, LocaleSetting
from pdchecks.parse.reader import Reader, looks_like, mentions
from pdchecks.unknown import Unknown

# Of what a command line sets, LC_ALL beats LC_CTYPE, which beats LANG; locale(7).
_SETS = tuple(re.compile(rf"\b{name}=[\"']?(?P<locale>[\w.@-]{{0,60}})") for name in ("LC_ALL", "LC_CTYPE", "LANG"))
_ASSIGNMENT = re.compile(
    r"(?:export\s+)?(?P<name>LANG|LANGUAGE|LC_[A-Z]{3,20})=[\"']?(?P<value>[^\"'\s]{0,60})[\"']?\s*"
)
_FILES = ("/etc/default/locale", "/etc/locale.conf", "/etc/sysconfig/i18n")
_COMPLAINT = re.compile(r"locale: |warning: ", re.IGNORECASE)
_LOCALECTL = re.compile(r"\s*(?:System Locale: )?(?P<name>LANG|LANGUAGE|LC_[A-Z]{3,20})=(?P<value>\S{0,60})\s*")
# What a program says when setlocale(3) fails: bash, perl (which lists its environment), dnf, man-db, Python, ansible.
_REFUSED = (
    re.compile(
        r"(?P<program>[\w./-]{1,40}): warning: setlocale: LC_\w+: cannot change locale \((?P<locale>[^)]{0,60})\)"
    ),
    re.compile(r"(?P<program>perl): warning: Setting locale failed"),
    re.compile(r"(?P<program>)Failed to set locale, defaulting to (?:C\b|\"C\")"),
    re.compile(r"(?P<program>\w{2,20}): can't set the locale"),
    re.compile(r"(?P<program>)locale\.Error: unsupported locale setting"),
    re.compile(r"(?P<program>Ansible) could not initialize the preferred locale"),
    re.compile(r"(?P<program>Ansible) requires the locale encoding to be UTF-8; Detected (?P<locale>[\w.-]{1,40})"),
    re.compile(r"(?P<program>locale): Cannot set LC_(?:CTYPE|ALL) to default locale"),
)
_PERL = re.compile(r"\s*(?P<name>LC_ALL|LC_CTYPE|LANG) = \"(?P<locale>[^\"]{1,60})\"")
_SHAPE = re.compile("|".join(re.sub(r"\?P<\w+>", "?:", pattern.pattern) for pattern in _REFUSED))


def parse(block: Block) -> list[Fact] | Unknown:
    if not _asks(block):
        return _refused(block)
    parts = words(block.command)
    path = next((name for name in _FILES if name in block.command), None)
    if path is not None:
        matches = [match for line in block.lines if (match := _ASSIGNMENT.fullmatch(line.strip()))]
        values = {match["name"]: match["value"] for match in matches}
        return [LocaleSetting(quote=block.quote(block.output.strip() or "(empty)"), path=path, values=values)]
    lines = [line.strip() for line in block.lines if line.strip()]
    plain = [line for line in lines if not _COMPLAINT.search(line)]
    if "charmap" in parts:
        sets = [match["locale"] for pattern in _SETS if (match := pattern.search(block.command))]
        complaints = "; ".join(line for line in lines if line not in plain)
        if not plain:
            return Unknown(f"locale charmap printed nothing: {complaints[:200]}")
        return [
            Charmap(
                quote=block.quote(" ".join(lines)),
                locale=sets[0] if sets else "",
                charmap=plain[-1],
                complaints=complaints,
                beaten=sets[-1] if len(sets) > 1 and sets[-1] != sets[0] else "",
            )
        ]
    if "-a" in parts:
        return [LocaleList(quote=block.quote(" ".join(plain)), names=tuple(plain[:2000]))]
    if "localectl" in parts:
        values = {m["name"]: m["value"] for line in block.lines if (m := _LOCALECTL.fullmatch(line))}
        return [LocaleSetting(quote=block.quote(" ".join(lines[:3])), path="localectl", values=values)]
    values = {m["name"]: m["value"] for line in lines if (m := _ASSIGNMENT.fullmatch(line))}
    return [LocaleSetting(quote=block.quote(" ".join(lines)), path="this session", values=values)] if values else []


def canonical(locale: str) -> str:
    """glibc's own folding: `C.UTF-8` and `C.utf8` are one locale."""
    name, dot, codeset = locale.partition(".")
    return name + dot + re.sub(r"[^a-z0-9]", "", codeset.lower())


def _refused(block: Block) -> list[Fact]:
    facts: list[Fact] = []
    for line in block.lines:
        match = next((found for pattern in _REFUSED if (found := pattern.search(line[:1000]))), None)
        if match is None:
            continue
        named = match.groupdict().get("locale") or next(
            (perl["locale"] for other in block.lines if (perl := _PERL.match(other))), ""
        )
        program = match["program"].rsplit("/", 1)[-1] or "a program"
        facts.append(LocaleRefused(quote=block.quote(line.strip()), program=program, locale=named))
    return facts


def _asks(block: Block) -> bool:
    parts = words(block.command)
    return "locale" in parts or "localectl" in parts or any(name in block.command for name in _FILES)


def _claims(block: Block) -> bool:
    return _asks(block) or (mentions(block, " locale") and looks_like(block, _SHAPE))


READER = Reader("locale", _claims, parse)
