"""ip(8) route get, as text and JSON. The kernel's refusal comes as `RTNETLINK answers: Network is unreachable`."""

import json
import re
from itertools import pairwise

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.net import Route
from pdchecks.parse.reader import Reader, argument
from pdchecks.unknown import Unknown

_ADDRESS = r"[0-9A-Fa-f.:]{2,45}"
_LINE = re.compile(rf"(?:unicast |local |multicast |broadcast )?(?P<destination>{_ADDRESS})\s(?P<rest>.*\bdev .*)")
_REFUSED = re.compile(r"RTNETLINK answers: (?P<why>.{3,80})|Error: (?P<other>.{3,80})")


def parse(block: Block) -> list[Fact] | Unknown:
    asked = argument(block.command, "oif") or argument(block.command, "dev") or argument(block.command, "iif") or ""
    source = argument(block.command, "from") or ""
    parts = words(block.command)
    destination = parts[parts.index("get") + 1] if "get" in parts[:-1] else ""
    text = block.output.strip()
    if text.startswith("["):
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError):
            return Unknown("ip printed JSON that cannot be read")
        found = [{key: str(row.get(name, "")) for key, name in _KEYS.items()} for row in rows if isinstance(row, dict)]
        return [_route(block, row, asked, source) for row in found if row["destination"] and row["dev"]]
    facts: list[Fact] = []
    for line in (line[:400] for line in block.lines):
        if refused := _REFUSED.match(line):
            facts.append(
                Route(
                    quote=block.quote(line),
                    destination=destination,
                    source=source,
                    asked=asked,
                    via="",
                    netdev=Unknown((refused["why"] or refused["other"]).strip()),
                )
            )
        elif match := _LINE.match(line):
            pairs = match["rest"].split()
            row = dict(pairwise(pairs))
            fields = {key: row.get(name, "") for key, name in _WORDS.items()} | {"destination": match["destination"]}
            facts.append(_route(block, fields, asked, source))
    return facts


_KEYS = {"destination": "dst", "from": "from", "source": "prefsrc", "via": "gateway", "dev": "dev"}
_WORDS = {"from": "from", "source": "src", "via": "via", "dev": "dev"}


def _route(block: Block, row: dict[str, str], asked: str, source: str) -> Route:
    return Route(
        quote=block.quote(" ".join(f"{key} {value}" for key, value in row.items() if value)),
        destination=row["destination"],
        source=row["from"] or source or row["source"],
        asked=asked,
        via=row["via"],
        netdev=row["dev"],
    )


def _claims(block: Block) -> bool:
    parts = words(block.command)
    return "ip" in parts and any(word in ("route", "ro", "r") for word in parts) and "get" in parts


READER = Reader("ip route", _claims, parse)
