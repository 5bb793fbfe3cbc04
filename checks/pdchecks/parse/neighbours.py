"""ip(8) neigh, as text and JSON, with and without -s. The state is a list in JSON; old iproute2 prints empty objects."""

import json
import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.net import Neighbour, NeighbourCount
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_STATES = ("PERMANENT", "NOARP", "REACHABLE", "STALE", "NONE", "INCOMPLETE", "DELAY", "PROBE", "FAILED")
_LINE = re.compile(r"(?P<address>[0-9a-fA-F:.]{2,45})(?: dev (?P<netdev>\S{1,32}))?\s(?P<rest>.*)")
_SHAPE = re.compile(rf"^[0-9a-fA-F:.]+ dev \S+ .*(?:{'|'.join(_STATES)})\s*$", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    text = block.output.strip()
    if "wc" in words(block.command):
        return [NeighbourCount(quote=block.quote(text), count=int(text))] if re.fullmatch(r"\d{1,9}", text) else []
    if text.startswith("["):
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError):
            return Unknown("ip printed JSON that cannot be read")
        return [
            Neighbour(
                quote=block.quote(f"{row['dst']} dev {row.get('dev')} {row.get('state')}"),
                address=str(row["dst"]),
                netdev=str(row.get("dev", "")),
                states=tuple(str(state) for state in row["state"]) if isinstance(row.get("state"), list) else (),
            )
            for row in rows
            if isinstance(row, dict) and "dst" in row
        ]
    facts: list[Fact] = []
    for line in block.lines:
        match = _LINE.match(line)
        states = tuple(word for word in match["rest"].split() if word in _STATES) if match else ()
        if match and states:
            netdev = match["netdev"] or ""
            facts.append(
                Neighbour(quote=block.quote(line.strip()), address=match["address"], netdev=netdev, states=states)
            )
    return facts


def _claims(block: Block) -> bool:
    parts = words(block.command)
    asks = "ip" in parts and any(word in ("neigh", "neighbor", "neighbour", "n") for word in parts)
    return asks or looks_like(block, _SHAPE)


READER = Reader("ip neigh", _claims, parse)
