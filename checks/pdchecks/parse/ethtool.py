"""ethtool: -i (driver), -S (counters), -a (pause), -g (rings), -k (offloads), and plain (link). One tool, one file."""

import re
from collections.abc import Callable

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.net import LinkSpeed, NicCounters, NicDriver, Offload, PauseFrames, Ring
from pdchecks.parse.reader import Reader, given, looks_like
from pdchecks.unknown import Unknown

_OPTIONS = {
    "-i": "driver",
    "--driver": "driver",
    "-S": "counters",
    "--statistics": "counters",
    "-a": "pause",
    "--show-pause": "pause",
    "-g": "rings",
    "--show-ring": "rings",
    "-m": "module",
    "--module-info": "module",
    "-k": "features",
    "--show-features": "features",
    "--show-offload": "features",
}
_FIELD = re.compile(r"\s*(?P<key>[A-Za-z][A-Za-z0-9_. /()-]{0,80}?):(?P<value>.*)")
_COUNTER = re.compile(r"\s*(?P<name>\[?[A-Za-z0-9_][A-Za-z0-9_.\[\]: -]{0,80}?):\s*(?P<value>\d{1,24})\s*")
_FIRMWARE = re.compile(r"(?P<version>\S+)(?:\s+\((?P<psid>[A-Za-z0-9_]{4,32})\))?")
# Link modes stand one or two a line; the second and later lines are only indented.
_SUPPORTED = re.compile(r"Supported link modes:(?:\s+\d{2,7}base\S{1,20}){1,200}")
_SHAPES = {
    "driver": re.compile(r"^driver: .*\n(?:.*\n){0,3}?firmware-version:", re.MULTILINE),
    "counters": re.compile(r"^NIC statistics:", re.MULTILINE),
    "pause": re.compile(r"^Pause parameters for (\S+):", re.MULTILINE),
    "rings": re.compile(r"^Ring parameters for (\S+):", re.MULTILINE),
    "features": re.compile(r"^Features for (\S+):", re.MULTILINE),
}
_UNNAMED = "(interface not named)"


def _what(block: Block) -> tuple[str, str]:
    """Which of ethtool's outputs the block holds, and of which interface."""
    parts = words(block.command)
    if "ethtool" in parts:
        after = parts[parts.index("ethtool") + 1 :]
        kind = next((_OPTIONS[word] for word in after if word in _OPTIONS), None)
        if kind is None and any(word.startswith("-") for word in after[:1]):
            return "", ""
        netdev = next((word for word in after if word and not word.startswith("-")), _UNNAMED)
        return kind or "link", netdev
    for kind, shape in _SHAPES.items():
        if match := shape.search(block.output, 0, 20_000):
            return kind, match[1] if match.groups() else _UNNAMED
    return "", ""


def parse(block: Block) -> list[Fact] | Unknown:
    kind, netdev = _what(block)
    facts = _PARSERS[kind](block, netdev) if kind else []
    if not facts and block.rc not in (0, None):
        return Unknown(f"ethtool gave nothing for {netdev}: {block.output.strip()[:200]}")
    return facts


def _fields(block: Block) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in block.lines:
        if match := _FIELD.fullmatch(line):
            fields.setdefault(match["key"], match["value"].strip())
    return fields


def _driver(block: Block, netdev: str) -> list[Fact]:
    fields = _fields(block)
    if "driver" not in fields:
        return []
    text = fields.get("firmware-version", "")
    firmware = _FIRMWARE.match(text)
    return [
        NicDriver(
            quote=block.quote(f"driver: {fields['driver']} firmware-version: {text}"),
            netdev=netdev,
            driver=given(fields["driver"], "the driver"),
            version=given(fields.get("version"), "the driver's version"),
            firmware=firmware["version"] if firmware else Unknown("the driver reports no firmware version"),
            psid=given(firmware["psid"] if firmware else None, "the PSID"),
            bus=given(fields.get("bus-info"), "bus-info"),
        )
    ]


def _counters(block: Block, netdev: str) -> list[Fact]:
    values: dict[str, int] = {}
    for line in block.lines:
        if match := _COUNTER.fullmatch(line):
            values[match["name"]] = int(match["value"])
    return [NicCounters(quote=block.quote("NIC statistics"), netdev=netdev, values=values)] if values else []


def _pause(block: Block, netdev: str) -> list[Fact]:
    fields = _fields(block)
    if not {"RX", "TX"} <= fields.keys():
        return []
    receive, send = fields["RX"], fields["TX"]
    quote = block.quote(f"RX: {receive} TX: {send}")
    return [PauseFrames(quote=quote, netdev=netdev, receive=receive == "on", send=send == "on")]


def _rings(block: Block, netdev: str) -> list[Fact]:
    """The largest sizes stand first, those in use behind them."""
    seen: dict[str, list[int]] = {}
    for line in block.lines:
        if match := re.fullmatch(r"(?P<way>RX|TX):\s+(?P<size>\d{1,7})\s*", line):
            seen.setdefault(match["way"], []).append(int(match["size"]))
    return [
        Ring(
            quote=block.quote(f"{way}: {sizes[1]} of at most {sizes[0]}"),
            netdev=netdev,
            way=way.lower(),
            size=sizes[1],
            largest=sizes[0],
        )
        for way, sizes in seen.items()
        if len(sizes) == 2
    ]


def _module(block: Block, netdev: str) -> list[Fact]:
    """Vendor and light of a module are for people; nothing is judged by them."""
    return []


def _features(block: Block, netdev: str) -> list[Fact]:
    facts: list[Fact] = []
    for line in block.lines:
        match = _FIELD.fullmatch(line)
        if match and (state := match["value"].strip().split(" ")[0]) in ("on", "off"):
            fixed = "[fixed]" in match["value"]
            facts.append(
                Offload(
                    quote=block.quote(line.strip()), netdev=netdev, feature=match["key"], on=state == "on", fixed=fixed
                )
            )
    return facts


def _link(block: Block, netdev: str) -> list[Fact]:
    fields = _fields(block)
    if "Speed" not in fields and "Link detected" not in fields:
        return []
    speed = re.match(r"(\d{1,8})Mb/s", fields.get("Speed", ""))
    modes = _SUPPORTED.search(block.output)
    speeds = [int(mode) for mode in re.findall(r"(\d{2,7})base", modes[0])] if modes else []
    detected = {"yes": True, "no": False}.get(fields.get("Link detected", ""), Unknown("the link was not reported"))
    return [
        LinkSpeed(
            quote=block.quote(f"Speed: {fields.get('Speed', '')} Link detected: {fields.get('Link detected', '')}"),
            netdev=netdev,
            speed_mbps=int(speed[1]) if speed else Unknown("the speed was not reported"),
            supported_mbps=max(speeds) if speeds else Unknown("no supported link mode was printed"),
            detected=detected,
        )
    ]


_PARSERS: dict[str, Callable[[Block, str], list[Fact]]] = {
    "driver": _driver,
    "counters": _counters,
    "pause": _pause,
    "rings": _rings,
    "module": _module,
    "features": _features,
    "link": _link,
}


def _claims(block: Block) -> bool:
    return "ethtool" in words(block.command) or any(looks_like(block, shape) for shape in _SHAPES.values())


READER = Reader("ethtool", _claims, parse)
