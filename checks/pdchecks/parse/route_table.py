"""ip(8) route show, as text and JSON."""

import json
import re
from itertools import pairwise

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.net import RouteEntry
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

_LINE = re.compile(r"(?:unicast )?(?P<destination>default|[0-9A-Fa-f.:]{2,45}(?:/\d{1,3})?)\s(?P<rest>.*)")
_WORDS = {"via": "via", "dev": "dev", "source": "src", "metric": "metric"}
_KEYS = {"via": "gateway", "dev": "dev", "source": "prefsrc", "metric": "metric"}


def parse(block: Block) -> list[Fact] | Unknown:
    if block.output.strip().startswith("["):
        try:
            rows = json.loads(block.output)
        except (ValueError, RecursionError):
            return Unknown("ip printed JSON that cannot be read")
        found = [
            {key: str(row.get(name, "")) for key, name in _KEYS.items()} | {"destination": str(row.get("dst", ""))}
            for row in rows
            if isinstance(row, dict)
        ]
    else:
        found = []
        for line in (line[:400] for line in block.lines):
            if match := _LINE.match(line):
                row = dict(pairwise(match["rest"].split()))
                fields = {key: row.get(name, "") for key, name in _WORDS.items()}
                found.append(fields | {"destination": match["destination"]})
    return [
        RouteEntry(
            quote=block.quote(" ".join([row["destination"], *(f"{key} {row[key]}" for key in _WORDS if row[key])])),
            destination=row["destination"],
            via=row["via"],
            netdev=row["dev"],
            source=row["source"],
            metric=row["metric"],
        )
        for row in found
        if row["destination"] and row["dev"]
    ]


def _claims(block: Block) -> bool:
    parts = words(block.command)
    table = any(word in ("route", "ro", "r") for word in parts) and "get" not in parts
    return "ip" in parts and table


READER = Reader("ip route show", _claims, parse)
