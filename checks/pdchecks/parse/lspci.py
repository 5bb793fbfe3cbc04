"""lspci -v to -vvv: classes, link width and speed, ACS and ordering bits. Bits print as `ReqRedir+`; a pipe through grep may
leave only the ACSCtl lines, of functions that can then not be told apart."""

import re
from dataclasses import dataclass

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.net import PciAcs, PciFunction, PciLink, PciOrdering
from pdchecks.parse.reader import Reader, argument, looks_like, runs
from pdchecks.unknown import Unknown

_ADDRESS = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HEAD = re.compile(
    rf"(?P<address>{_ADDRESS.pattern}) (?P<kind>[A-Z0-9][^:\[]{{2,60}}?)"
    r"(?: \[[0-9a-f]{4}\])?: (?P<name>.{1,200})"
)
_CAPABLE = re.compile(r"\s*LnkCap:\s.{0,40}?Speed (?P<speed>\d{1,3}(?:\.\d)?)GT/s, Width x(?P<width>\d{1,2})")
_STATE = re.compile(
    r"\s*LnkSta:\s+Speed (?P<speed>\d{1,3}(?:\.\d)?)GT/s(?: \(\w+\))?, Width x(?P<width>\d{1,2})(?: \((?P<word>\w+)\))?"
)
_ACS = re.compile(r"\s*ACSCtl:\s+(?P<bits>(?:\w{4,16}[+-] ?){3,10})")
_ORDERING = re.compile(r"\bRlxdOrd(?P<state>[+-])")
_SHAPE = re.compile(r"^[ \t]*(?:ACSCtl:\s+SrcValid|LnkSta:\s+Speed )", re.MULTILINE)


@dataclass(slots=True)
class _Function:
    address: str
    kind: str
    capable: tuple[float, int] | None = None


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    function = _asked(block.command)
    for line in (line[:400] for line in block.lines):
        if head := _HEAD.match(line):
            function = _Function(_full(head["address"]), head["kind"])
            facts.append(
                PciFunction(
                    quote=block.quote(line), address=function.address, kind=head["kind"], name=head["name"].strip()
                )
            )
        elif acs := _ACS.match(line):
            facts.append(_acs(block, line, function, acs))
        elif function is None:
            continue
        elif capable := _CAPABLE.match(line):
            function.capable = float(capable["speed"]), int(capable["width"])
        elif (state := _STATE.match(line)) and function.capable:
            facts.append(_link(block, line, function, function.capable, state))
        elif ordering := _ORDERING.search(line):
            facts.append(
                PciOrdering(
                    quote=block.quote(f"{function.address} {line.strip()}"),
                    address=function.address,
                    kind=function.kind,
                    relaxed=ordering["state"] == "+",
                )
            )
    if not facts and block.rc not in (0, None, 1):
        return Unknown(f"lspci gave nothing: {block.output.strip()[:200]}")
    return facts


def _asked(command: str) -> _Function | None:
    """The function that `-s` names, for lines that `grep` left without their head."""
    address = argument(command, "-s") or ""
    return _Function(_full(address), "") if _ADDRESS.fullmatch(address) else None


def _full(address: str) -> str:
    """With the domain, in the four digits of sysfs."""
    domain, _, rest = address.rpartition(":")
    bus = domain.rpartition(":")
    return f"{(bus[0] or '0000')[-4:]}:{bus[2]}:{rest}"


def _acs(block: Block, line: str, function: _Function | None, match: re.Match[str]) -> PciAcs:
    where = f"{function.address} " if function else ""
    return PciAcs(
        quote=block.quote(f"{where}{' '.join(line.split())}"),
        address=function.address if function else Unknown("the line that names the function was not kept"),
        kind=function.kind if function else "",
        on=frozenset(bit[:-1] for bit in match["bits"].split() if bit.endswith("+")),
    )


def _link(block: Block, line: str, function: _Function, capable: tuple[float, int], state: re.Match[str]) -> PciLink:
    return PciLink(
        quote=block.quote(f"{function.address} {' '.join(line.split())} (LnkCap {capable[0]:g}GT/s x{capable[1]})"),
        address=function.address,
        kind=function.kind,
        speed=float(state["speed"]),
        width=int(state["width"]),
        max_speed=capable[0],
        max_width=capable[1],
    )


READER = Reader("lspci", lambda block: runs(block, "lspci") or looks_like(block, _SHAPE), parse)
