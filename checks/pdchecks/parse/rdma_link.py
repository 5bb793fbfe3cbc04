"""rdma(8) link, as text (old and new) and JSON; iproute2 rdma/link.c. Text lines end with a space."""

import json
import re
from typing import Any

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import RdmaPort
from pdchecks.parse.reader import Reader, given, looks_like, subcommand
from pdchecks.unknown import Unknown

_LINE = re.compile(
    r"(?:\d{1,5}/\d{1,3}: |link )(?P<device>[^/\s]{1,64})/(?P<port>\d{1,3}):? (?P<rest>(?:[\w: ]{0,200} )?state \S.*)"
)
_SHAPE = re.compile(r"^(?:link|\d+/\d+:) \S+/\d+:? .*\bstate [A-Z_]+ physical_state ", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    text = block.output.strip()
    if text.startswith("["):
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError):
            return Unknown("rdma printed JSON that cannot be read")
        return [fact for row in rows if isinstance(row, dict) for fact in _from_json(block, row)]
    facts: list[Fact] = []
    for line in block.lines:
        if match := _LINE.match(line):
            parts = match["rest"].split()
            fields = dict(zip(parts[::2], parts[1::2], strict=False))
            facts.append(_port(block, line, match["device"], int(match["port"]), fields))
    if not facts and block.rc not in (0, None):
        return Unknown(f"rdma link gave nothing: {text[:200]}")
    return facts


def _from_json(block: Block, row: dict[str, Any]) -> list[Fact]:
    device, port = row.get("ifname"), row.get("port")
    if not isinstance(device, str) or not isinstance(port, int) or "state" not in row:
        return []
    fields = {key: str(value) for key, value in row.items()}
    return [_port(block, f"{device}/{port} state {fields['state']}", device, port, fields)]


def _port(block: Block, line: str, device: str, port: int, fields: dict[str, str]) -> RdmaPort:
    lid = fields.get("lid", "")
    return RdmaPort(
        quote=block.quote(line.strip()),
        device=device,
        port=port,
        state=given(fields.get("state"), "the port state"),
        physical=given(fields.get("physical_state"), "the physical state"),
        layer="InfiniBand"
        if "lid" in fields
        else "Ethernet"
        if "netdev" in fields
        else Unknown("no lid and no netdev"),
        rate_gbps=Unknown("rdma link prints no rate"),
        lid=int(lid) if lid.isdecimal() and len(lid) < 6 else Unknown("rdma link printed no lid"),
        netdev=given(fields.get("netdev"), "netdev"),
    )


def _claims(block: Block) -> bool:
    asked = subcommand(block.command, "rdma")
    return asked in ("l", "link") or (not asked and looks_like(block, _SHAPE))


READER = Reader("rdma link", _claims, parse)
