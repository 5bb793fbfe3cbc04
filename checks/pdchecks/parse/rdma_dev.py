"""RDMA devices without their ports: `rdma dev` (text and JSON; iproute2 rdma/dev.c) and ibv_devices."""

import json
import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import RdmaDevice
from pdchecks.parse.reader import Reader, looks_like, subcommand
from pdchecks.unknown import Unknown

_LINE = re.compile(r"\d{1,5}: (?P<device>[\w.-]{1,64}): node_type \w{1,20}(?P<rest>(?: \S{1,60}){0,20})\s*")
_FIRMWARE = re.compile(r" fw (?P<version>\S{1,40})")
_LISTED = re.compile(r"\s+(?P<device>[A-Za-z]\w{1,60})\s+(?P<guid>[0-9a-f]{16})\s*")
_SHAPE = re.compile(r"^\d+: \S+: node_type |^[ \t]{1,40}device[ \t]{1,40}node GUID[ \t]*$", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    text = block.output.strip()
    if text.startswith("["):
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError):
            return Unknown("rdma printed JSON that cannot be read")
        return [
            _device(block, str(row.get("ifname")), row.get("ifname"), row.get("fw"))
            for row in rows
            if isinstance(row, dict) and isinstance(row.get("ifname"), str)
        ]
    facts: list[Fact] = []
    for line in block.lines:
        if match := _LINE.fullmatch(line):
            firmware = _FIRMWARE.search(match["rest"])
            facts.append(_device(block, line, match["device"], firmware["version"] if firmware else None))
        elif match := _LISTED.fullmatch(line):
            facts.append(_device(block, line, match["device"], None))
    if not facts and block.rc not in (0, None):
        return Unknown(f"the RDMA devices were not listed: {' '.join(text.split())[:200]}")
    return facts


def _device(block: Block, line: str, device: object, firmware: object) -> RdmaDevice:
    unsaid = Unknown("this list does not say it")
    return RdmaDevice(
        quote=block.quote(line.strip()),
        device=str(device),
        firmware=firmware if isinstance(firmware, str) and firmware else unsaid,
        part=unsaid,
        psid=unsaid,
    )


def _claims(block: Block) -> bool:
    asks = "ibv_devices" in words(block.command) or subcommand(block.command, "rdma") in ("dev", "d")
    return asks or looks_like(block, _SHAPE)


READER = Reader("rdma dev", _claims, parse, events=True)
