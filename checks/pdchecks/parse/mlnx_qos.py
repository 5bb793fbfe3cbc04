"""mlnx_qos (mlnx-tools), new and old. Errors come on stdout with status 1: the interface has no DCB operations, as a VLAN,
bond or virtual interface. A DSCP list wraps over several lines of one priority; buffer lines are missing in old ones."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.qos import LldpadRuns, QosBuffer, QosDcbx, QosDscpMap, QosPfc, QosTrust
from pdchecks.parse.reader import Reader, argument, looks_like, runs
from pdchecks.unknown import Unknown

_TRUST = re.compile(r"Priority trust state: (?P<trust>dscp|pcp|both|none)\b")
_DSCP = re.compile(r"\s*prio:(?P<priority>[0-7]) dscp:(?P<dscps>[\d, ]{0,400})")
_ROW = re.compile(r"\s*(?P<row>enabled|buffer)(?P<values>(?:\s+\d{1,2}){8})\s*")
_SIZES = re.compile(r"Receive buffer size \(bytes\): (?P<sizes>[\d,]{1,200})")
_CABLE = re.compile(r"Cable len: (?P<metres>\d{1,5})")
_DCBX = re.compile(r"DCBX mode: (?P<owner>OS|Firmware) controlled", re.IGNORECASE)
_REFUSED = re.compile(r"(?:is|are) not supported on your system")
_SHAPE = re.compile(r"^Priority trust state|^DCBX mode: |^PFC configuration:", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    netdev = argument(block.command, "-i") or argument(block.command, "--interface") or "(interface not named)"
    text = block.output
    if _REFUSED.search(text) and "PFC configuration" not in text:
        return _refused(block, netdev)
    facts: list[Fact] = []
    if "lldpad service is running" in text:
        facts.append(LldpadRuns(quote=block.quote("lldpad service is running"), netdev=netdev))
    if owner := _DCBX.search(text):
        facts.append(QosDcbx(quote=block.quote(owner[0]), netdev=netdev, owner=owner["owner"].lower()))
    if trust := _TRUST.search(text):
        facts.append(QosTrust(quote=block.quote(trust[0]), netdev=netdev, trust=trust["trust"]))
    priority = {
        int(dscp): int(row["priority"])
        for line in block.lines
        if (row := _DSCP.match(line))
        for dscp in row["dscps"].replace(" ", "").split(",")
        if dscp.isdecimal() and len(dscp) <= 2
    }
    if priority:
        facts.append(QosDscpMap(quote=block.quote("dscp2prio mapping"), netdev=netdev, priority=priority))
    facts += _pfc(block, netdev)
    return facts or Unknown(f"mlnx_qos printed nothing that can be read: {text.strip()[:200]}")


def _pfc(block: Block, netdev: str) -> list[Fact]:
    rows: dict[str, tuple[int, ...]] = {}
    shown = ""
    for line in block.lines:
        if match := _ROW.fullmatch(line):
            rows[match["row"]] = tuple(int(value) for value in match["values"].split())
            shown = line.strip() if match["row"] == "enabled" else shown
    facts: list[Fact] = []
    if "enabled" in rows:
        enabled = frozenset(priority for priority, on in enumerate(rows["enabled"]) if on)
        facts.append(QosPfc(quote=block.quote(f"PFC configuration: {shown}"), netdev=netdev, enabled=enabled))
    sizes, cable = _SIZES.search(block.output), _CABLE.search(block.output)
    if sizes:
        numbers = tuple(int(size) for size in sizes["sizes"].split(",") if size and len(size) < 12)
        facts.append(
            QosBuffer(
                quote=block.quote(sizes[0]),
                netdev=netdev,
                sizes=numbers,
                buffer_of=rows.get("buffer", ()),
                cable_m=int(cable["metres"]) if cable else Unknown("no cable length was printed"),
            )
        )
    return facts


def _refused(block: Block, netdev: str) -> list[Fact]:
    why = Unknown(
        f"mlnx_qos does not support {netdev}: it is no physical function (a VLAN, bond or virtual interface); "
        "ask the physical interface below it"
    )
    quote = block.quote(block.lines[0])
    return [
        QosTrust(quote=quote, netdev=netdev, trust=why),
        QosPfc(quote=quote, netdev=netdev, enabled=why),
    ]


READER = Reader("mlnx_qos", lambda block: runs(block, "mlnx_qos") or looks_like(block, _SHAPE), parse)
