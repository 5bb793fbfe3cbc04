"""systemctl show: one paragraph of Key=Value a unit."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.host import Unit
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

_PAIR = re.compile(r"(?P<key>[A-Z][A-Za-z]{1,40})=(?P<value>.*)")


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    for paragraph in block.output.split("\n\n"):
        fields = {m["key"]: m["value"].strip() for line in paragraph.split("\n") if (m := _PAIR.fullmatch(line))}
        name = fields.get("Id")
        if not name or "LoadState" not in fields:
            continue
        active, load = fields.get("ActiveState", ""), fields["LoadState"]
        facts.append(
            Unit(
                quote=block.quote(f"Id={name} LoadState={load} ActiveState={active}"),
                name=name,
                load=load,
                active=active,
                enabled=fields.get("UnitFileState", ""),
                stale=fields.get("NeedDaemonReload") == "yes",
            )
        )
    if not facts and block.rc not in (0, None):
        return Unknown(f"systemctl gave nothing: {block.output.strip()[:200]}")
    return facts


def _claims(block: Block) -> bool:
    parts = words(block.command)
    return "systemctl" in parts and "show" in parts


READER = Reader("systemctl", _claims, parse)
