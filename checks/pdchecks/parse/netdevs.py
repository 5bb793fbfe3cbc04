"""Interfaces: ip(8) addr and link (text and JSON) and ifconfig(8)."""

import json
import re
from typing import Any

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.net import Netdev
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_IP = re.compile(
    r"\d{1,7}: (?P<name>[^\s:@]{1,32})(?:@(?P<lower>[^\s:]{1,32}))?: <(?P<flags>[A-Z0-9_,-]{0,300})>.*? mtu (?P<mtu>\d{1,7})"
)
_IFCONFIG = re.compile(r"(?P<name>[^\s:]{1,32}): flags=\d{1,9}<(?P<flags>[A-Z0-9_,]{0,300})>\s+mtu (?P<mtu>\d{1,7})")
_OLD_IFCONFIG = re.compile(r"(?P<name>\S{1,32})\s+Link encap:")
_OLD_MTU = re.compile(r"\s+(?P<flags>UP\b[A-Z ]{0,60})\s+MTU:(?P<mtu>\d{1,7})")
_INET = re.compile(r"\s+inet6? (?:addr:)?\s?(?P<address>[0-9a-fA-F.:]{2,45}(?:/\d{1,3})?)")
_MASTER = re.compile(r" master (?P<master>[^\s:]{1,32})")
_SHAPE = re.compile(r"^\d+: [^\s:]+: <[A-Z_,-]+>.* mtu \d+|^\S+: flags=\d+<.*>\s+mtu \d+", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    text = block.output.strip()
    if text.startswith("["):
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError):
            return Unknown("ip printed JSON that cannot be read")
        return [fact for row in rows if isinstance(row, dict) for fact in _from_json(block, row)]
    found: list[tuple[str, str, str, str, list[str]]] = []
    pending = ""
    for line in block.lines:
        if head := _IP.match(line):
            found.append((line, head["name"], head["mtu"], f"{head['lower'] or ''} {head['flags']}", []))
        elif head := _IFCONFIG.match(line):
            found.append((line, head["name"], head["mtu"], f" {head['flags']}", []))
        elif old := _OLD_IFCONFIG.match(line):
            pending = old["name"]
        elif pending and (row := _OLD_MTU.match(line)):
            found.append((line, pending, row["mtu"], f" {row['flags'].replace(' ', ',')}", []))
            pending = ""
        elif found and (inet := _INET.match(line)):
            found[-1][4].append(inet["address"])
    return [_netdev(block, *row) for row in found]


def _netdev(block: Block, line: str, name: str, mtu: str, lower_flags: str, addresses: list[str]) -> Netdev:
    lower, _, flags = lower_flags.partition(" ")
    master = _MASTER.search(line)
    return Netdev(
        quote=block.quote(line.strip()),
        name=name,
        mtu=int(mtu),
        up="UP" in flags.split(","),
        lower="" if lower == "NONE" else lower,
        addresses=tuple(addresses),
        master=master["master"] if master else "",
    )


def _from_json(block: Block, row: dict[str, Any]) -> list[Fact]:
    name, mtu, flags = row.get("ifname"), row.get("mtu"), row.get("flags")
    if not isinstance(name, str):
        return []
    infos = row.get("addr_info")
    return [
        Netdev(
            quote=block.quote(f"{name} mtu {mtu}"),
            name=name,
            mtu=mtu if isinstance(mtu, int) else Unknown("ip printed no MTU"),
            up="UP" in flags if isinstance(flags, list) else Unknown("ip printed no flags"),
            lower=row["link"] if isinstance(row.get("link"), str) else "",
            addresses=tuple(
                f"{info.get('local')}/{info.get('prefixlen')}"
                for info in (infos if isinstance(infos, list) else ())
                if isinstance(info, dict) and "local" in info
            ),
            master=row["master"] if isinstance(row.get("master"), str) else "",
        )
    ]


def _claims(block: Block) -> bool:
    parts = words(block.command)
    asks = "ip" in parts and any(word in ("addr", "address", "a", "link", "l") for word in parts)
    return asks or "ifconfig" in parts or looks_like(block, _SHAPE)


READER = Reader("ip addr", _claims, parse)
