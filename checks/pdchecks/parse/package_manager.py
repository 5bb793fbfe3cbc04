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
    r"Unicode(?:Decode|(?P<writing>Encode))Error: 'ascii' codec can't (?:decode byte (?P<byte>0x[0-9a-fA-F]{2})|encode characters?.{0,40}?)"
    r"(?: in position (?P<position>\d{1,9})(?:-\d{1,9})?)?: ordinal"
)
_PROGRAM = re.compile(r"File \"(?P<path>\S{0,200}?/(?:s?bin|site-packages)/(?P<program>[\w.-]{1,40}))")
_WRAPPER_LOCALE = re.compile(r"\bLC_ALL=[\"']?(?P<locale>[A-Za-z_]{1,20}\.?[\w-]{0,20})")


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = [_codec(block, codec) for codec in _CODEC.finditer(block.output)]
    if "safe_yum" in block.command:
        facts += _wrapper(block)
    elif config := _CONFIG.search(block.command):
        facts += _bytes(block, config[0])
    return facts


def _codec(block: Block, codec: re.Match[str]) -> CodecFailure:
    before = block.output[: codec.start()]
    program = _PROGRAM.search(before)
    trace = before.rstrip().split("\n")
    in_trace = len(trace) > 1 and trace[-2].lstrip().startswith("File ")
    return CodecFailure(
        quote=block.quote(codec[0]),
        program=program["program"] if program else "a Python program",
        byte=int(codec["byte"], 16) if codec["byte"] else Unknown("a character, not a byte"),
        position=int(codec["position"]) if codec["position"] else Unknown("the traceback names no position"),
        writing=codec["writing"] is not None,
        statement=trace[-1].strip()[:200] if in_trace else "",
    )


# A grep that looks for anything but ASCII, in the ways people write it.
_ASKS_NON_ASCII = re.compile(r"\\x7[Ff]|\\x80|\[:(?:print|ascii|cntrl):\]|\\[12]00|\^ -~|\^\\t -~")
_HEX = re.compile(
    r"(?:[0-9a-f]{6,8}:?)\s+(?P<bytes>(?:[0-9a-f]{2}){1,2}(?:\s{1,2}(?:[0-9a-f]{2}){1,2}){0,15})(?:\s.*)?"
)


def _dumped(block: Block, path: str) -> list[Fact]:
    """hexdump -C or xxd of one file: line and column are counted from the bytes themselves."""
    raw = b"".join(
        bytes.fromhex("".join(match["bytes"].split())) for line in block.lines if (match := _HEX.fullmatch(line))
    )
    found = next((offset for offset, byte in enumerate(raw) if byte > 0x7F), None)
    if found is None:
        return [RepoScan(quote=block.quote("no byte above 0x7f"), paths=path)] if raw and block.rc in (0, None) else []
    start = raw.rfind(b"\n", 0, found) + 1
    return [
        NonAsciiByte(
            quote=block.quote(raw[start : found + 8].decode("utf-8", "replace")),
            path=path,
            line=raw.count(b"\n", 0, found) + 1,
            column=found - start + 1,
            byte=raw[found],
            comment=raw[start:].lstrip()[:1] in (b"#", b";"),
        )
    ]


def _bytes(block: Block, path: str) -> list[Fact]:
    parts = words(block.command)
    if any(word in ("hexdump", "xxd") for word in parts):
        return _dumped(block, path)
    searched = "grep" in parts or "egrep" in parts
    if not searched and "cat" not in parts:
        return []
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
            facts.append(
                NonAsciiByte(
                    quote=block.quote(line.strip()),
                    path=where,
                    line=at,
                    column=column,
                    byte=byte,
                    comment=text.lstrip().startswith(("#", ";")),
                    character="" if visible else _first_character(text),
                )
            )
    # grep exits 1 for no match, 2 for a file that it could not open.
    looked = _ASKS_NON_ASCII.search(block.command) is not None if searched else block.output.strip() != ""
    if not facts and looked and block.rc in ((0, 1) if searched else (0, None)):
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


def _first_character(text: str) -> str:
    """The first character outside ASCII; empty where the bytes are no UTF-8."""
    found = next((character for character in text if character > "\x7f"), "")
    return "" if "\ud800" <= found <= "\udfff" or found == "\ufffd" else found


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


READER = Reader("yum", _claims, parse, events=True)
