"""locale(1): -a, charmap, and the system's locale file. With a missing locale, charmap still exits 0, warns on stderr and
prints the C locale's ANSI_X3.4-1968."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.host import Charmap, LocaleList, LocaleSetting
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

_SET = re.compile(r"LC_ALL=(?P<locale>\S{0,60})")
_ASSIGNMENT = re.compile(
    r"(?:export\s+)?(?P<name>LANG|LANGUAGE|LC_[A-Z]{3,20})=[\"']?(?P<value>[^\"'\s]{0,60})[\"']?\s*"
)
_FILES = ("/etc/default/locale", "/etc/locale.conf", "/etc/sysconfig/i18n")
_COMPLAINT = re.compile(r"locale: |warning: ", re.IGNORECASE)


def parse(block: Block) -> list[Fact] | Unknown:
    parts = words(block.command)
    path = next((name for name in _FILES if name in block.command), None)
    if path is not None:
        matches = [match for line in block.lines if (match := _ASSIGNMENT.fullmatch(line.strip()))]
        values = {match["name"]: match["value"] for match in matches}
        return [LocaleSetting(quote=block.quote(block.output.strip() or "(empty)"), path=path, values=values)]
    lines = [line.strip() for line in block.lines if line.strip()]
    plain = [line for line in lines if not _COMPLAINT.search(line)]
    if "charmap" in parts:
        locale = _SET.search(block.command)
        complaints = "; ".join(line for line in lines if line not in plain)
        if not plain:
            return Unknown(f"locale charmap printed nothing: {complaints[:200]}")
        return [
            Charmap(
                quote=block.quote(" ".join(lines)),
                locale=locale["locale"] if locale else "",
                charmap=plain[-1],
                complaints=complaints,
            )
        ]
    if "-a" in parts:
        return [LocaleList(quote=block.quote(" ".join(plain)), names=tuple(plain[:2000]))]
    values = {m["name"]: m["value"] for line in lines if (m := _ASSIGNMENT.fullmatch(line))}
    return [LocaleSetting(quote=block.quote(" ".join(lines)), path="this session", values=values)] if values else []


def canonical(locale: str) -> str:
    """glibc's own folding: `C.UTF-8` and `C.utf8` are one locale."""
    name, dot, codeset = locale.partition(".")
    return name + dot + re.sub(r"[^a-z0-9]", "", codeset.lower())


def _claims(block: Block) -> bool:
    return "locale" in words(block.command) or any(name in block.command for name in _FILES)


READER = Reader("locale", _claims, parse)
