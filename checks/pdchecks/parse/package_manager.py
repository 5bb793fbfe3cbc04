"""yum and dnf: non-ASCII bytes in their configuration (grep -n, cat, cat -A), tracebacks, and the safe_yum wrapper."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.host import CodecFailure, NonAsciiByte, RepoScan, YumWrapper
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_CONFIG = re.compile(r"/etc/(?:yum\.repos\.d|yum\.conf|dnf|yum)\S{0,200}")
_GREP = re.compile(r"(?P<path>/\S{1,200}?):(?P<line>\d{1,7}):(?P<text>.*)")
_NUMBERED = re.compile(r"(?P<line>\d{1,7}):(?P<text>.*)")
_META = re.compile(r"M-(?:\^)?.")
_CODEC = re.compile(
    r"UnicodeDecodeError: 'ascii' codec can't decode byte (?P<byte>0x[0-9a-fA-F]{2})(?: in position (?P<position>\d{1,9}))?"
)
_PROGRAM = re.compile(r"File \"(?P<path>\S{0,200}?/(?:s?bin|site-packages)/(?P<program>[\w.-]{1,40}))")
_WRAPPER_LOCALE = re.compile(r"\bLC_ALL=[\"']?(?P<locale>[A-Za-z_]{1,20}\.?[\w-]{0,20})")


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    if codec := _CODEC.search(block.output):
        program = _PROGRAM.search(block.output)
        position = codec["position"]
        facts.append(
            CodecFailure(
                quote=block.quote(codec[0]),
                program=program["program"] if program else "a Python program",
                byte=int(codec["byte"], 16),
                position=int(position) if position else Unknown("the traceback names no position"),
            )
        )
    if "safe_yum" in block.command:
        facts += _wrapper(block)
    elif config := _CONFIG.search(block.command):
        facts += _bytes(block, config[0])
    return facts


def _bytes(block: Block, path: str) -> list[Fact]:
    parts = words(block.command)
    searched = "grep" in parts
    visible = "cat" in parts and any(word.startswith("-") and set(word) & set("Av") for word in parts)
    facts: list[Fact] = []
    for number, line in enumerate(block.lines, start=1):
        where, at, text = path, number, line
        if searched:
            match = _GREP.fullmatch(line) or _NUMBERED.fullmatch(line)
            if match is None:
                continue
            where, at, text = match.groupdict().get("path") or path, int(match["line"]), match["text"]
        if found := _first_byte(text, visible):
            column, byte = found
            comment = text.lstrip().startswith(("#", ";"))
            quote = block.quote(line.strip())
            facts.append(NonAsciiByte(quote=quote, path=where, line=at, column=column, byte=byte, comment=comment))
    # grep exits 1 for no match, 2 for a file that it could not open.
    if not facts and block.rc in ((0, 1) if searched else (0, None)):
        facts.append(RepoScan(quote=block.quote("no byte above 0x7f"), paths=path))
    return facts


def _first_byte(text: str, visible: bool) -> tuple[int, int] | None:
    """Column (bytes, from 1) and value of the first byte above 0x7f. visible: the text is cat -v's notation."""
    if not visible:
        raw = text.encode("utf-8", "surrogateescape")
        return next(((column, byte) for column, byte in enumerate(raw, start=1) if byte > 0x7F), None)
    match = _META.search(text)
    if match is None:
        return None
    # cat -v: M-x is x + 128, M-^X is X - 64 + 128.
    byte = ord(match[0][-1]) + 128 - (64 if "^" in match[0] else 0)
    return match.start() + 1, byte & 0xFF


def _wrapper(block: Block) -> list[Fact]:
    path = next((word for word in block.command.split() if word.startswith("/")), "safe_yum")
    if block.rc not in (0, None):
        return [YumWrapper(quote=block.quote(block.output.strip()), path="", locale=Unknown("there is no wrapper"))]
    locale = _WRAPPER_LOCALE.search(block.output)
    return [
        YumWrapper(
            quote=block.quote(locale[0] if locale else block.output.strip()[:200]),
            path=path,
            locale=locale["locale"] if locale else Unknown("the wrapper sets no fixed LC_ALL"),
        )
    ]


def _claims(block: Block) -> bool:
    return "safe_yum" in block.command or bool(_CONFIG.search(block.command)) or looks_like(block, _CODEC)


READER = Reader("yum", _claims, parse)
