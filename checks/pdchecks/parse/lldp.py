"""LLDP: who is at the other end of a cable. lldpctl and lldpcli (text, `-f keyvalue`, JSON); lldptool of lldpad, whose
PFC TLV also tells which priorities the switch (-n) or this port (without) has on."""

import json
import re
from collections.abc import Iterator
from typing import Any

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.net import LldpNeighbour
from pdchecks.facts.qos import QosPfc
from pdchecks.parse.reader import Reader, argument, looks_like
from pdchecks.unknown import Unknown

_INTERFACE = re.compile(r"Interface:\s{1,8}(?P<netdev>[^,\s]{1,32}), via: LLDP")
_FIELD = re.compile(r"\s+(?P<key>SysName|ChassisID|PortID|PortDescr):\s+(?P<value>\S.{0,120})")
_KEYVALUE = re.compile(
    r"lldp\.(?P<netdev>[^.=\s]{1,32})\.(?P<key>chassis\.(?:name|mac)|port\.(?:ifname|descr|mac|local))=(?P<value>.{1,120})"
)
_ENABLED = re.compile(r"\s*PFC enabled:\s*(?P<listed>none|[0-7](?:[ ,]{1,3}[0-7]){0,7})\s*")
_TLV = re.compile(r"(?P<tlv>Chassis ID|Port ID|System Name) TLV\s*")
_SHAPE = re.compile(
    r"^LLDP neighbors:|^Interface:\s+\S+, via: LLDP|^lldp\.\S+\.chassis\.|^IEEE 8021QAZ PFC TLV", re.MULTILINE
)
# Of several words for one thing the more telling first.
_SWITCH = ("SysName", "chassis.name", "System Name", "ChassisID", "chassis.mac", "Chassis ID")
_PORT = ("PortID", "port.ifname", "port.local", "Port ID", "PortDescr", "port.descr", "port.mac")


def parse(block: Block) -> list[Fact] | Unknown:
    parts = words(block.command)
    if "lldptool" in parts:
        return _lldptool(block, parts)
    found: dict[str, dict[str, str]] = {}
    if block.output.lstrip().startswith("{"):
        try:
            found = dict(_json(json.loads(block.output)))
        except (ValueError, RecursionError):
            return Unknown("lldpctl printed JSON that cannot be read")
    netdev = ""
    for line in block.lines:
        if match := _INTERFACE.match(line):
            netdev = match["netdev"]
        elif match := _KEYVALUE.fullmatch(line):
            found.setdefault(match["netdev"], {}).setdefault(match["key"], match["value"].strip())
        elif netdev and (match := _FIELD.fullmatch(line)):
            found.setdefault(netdev, {}).setdefault(match["key"], match["value"].strip())
    return [fact for name, fields in found.items() for fact in _neighbour(block, name, fields)]


def _neighbour(block: Block, netdev: str, fields: dict[str, str]) -> Iterator[Fact]:
    switch = next((fields[key] for key in _SWITCH if key in fields), "")
    port = next((fields[key] for key in _PORT if key in fields), "")
    # `ifname swp12`, `mac aa:bb:..`: the kind of the identifier stands before it.
    switch, port = (re.sub(r"^(?:mac|ifname|local|ip) (?=\S)", "", text) for text in (switch, port))
    if switch and port:
        quote = block.quote(f"{netdev}: {switch}, port {port}")
        yield LldpNeighbour(quote=quote, netdev=netdev, switch=switch, port=port)


def _json(document: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """`lldpcli -f json`: interfaces as a list of one-key objects, or one object; chassis keyed by the switch's name."""
    lldp = document.get("lldp") if isinstance(document, dict) else None
    listed = lldp.get("interface", []) if isinstance(lldp, dict) else []
    for entry in listed if isinstance(listed, list) else [listed]:
        for netdev, fields in entry.items() if isinstance(entry, dict) else ():
            chassis, port = (fields.get(key, {}) if isinstance(fields, dict) else {} for key in ("chassis", "port"))
            names = [name for name in chassis if name not in ("id", "descr")] if isinstance(chassis, dict) else []
            given = (
                port.get("id", {}).get("value") if isinstance(port, dict) and isinstance(port.get("id"), dict) else None
            )
            yield str(netdev), {"SysName": str(names[0])} | {"PortID": str(given)} if names and given else {}


def _lldptool(block: Block, parts: tuple[str, ...]) -> list[Fact]:
    netdev = argument(block.command, "-i") or next((p[2:] for p in parts if p.startswith("-i") and p[2:]), "")
    neighbours = "-n" in parts or "-tni" in parts or "get-tlv-neighbor" in block.command
    fields: dict[str, str] = {}
    tlv = ""
    for line in block.lines:
        if match := _TLV.fullmatch(line):
            tlv = match["tlv"]
        elif tlv and line[:1].isspace():
            fields.setdefault(tlv, re.sub(r"^\s*(?:MAC|Ifname|Local|IPv4): ", "", line).strip())
        elif not line[:1].isspace():
            tlv = ""
        # What the switch has on is its setting, not this port's.
        if not neighbours and netdev and (match := _ENABLED.fullmatch(line)):
            enabled = frozenset(int(digit) for digit in re.findall(r"[0-7]", match["listed"]))
            return [QosPfc(quote=block.quote(line.strip()), netdev=netdev, enabled=enabled)]
    return list(_neighbour(block, netdev, fields)) if neighbours and netdev else []


def _claims(block: Block) -> bool:
    parts = words(block.command)
    return any(tool in parts for tool in ("lldpctl", "lldpcli", "lldptool")) or looks_like(block, _SHAPE)


READER = Reader("lldp", _claims, parse, events=True)
