"""dcb(8): pfc, app, apptrust, buffer and dcbx, as text and JSON (iproute2 dcb/*.c). A refused `dcb` prints "Attribute read:
Operation not supported"; JSON of `app` may carry a stray string between its pairs."""

import json
import re
from typing import Any

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.qos import QosBuffer, QosDcbx, QosDscpMap, QosPfc, QosTrust
from pdchecks.parse.reader import Reader, argument, runs
from pdchecks.unknown import Unknown

_PFC = re.compile(r"prio-pfc(?P<pairs>(?:\s+[0-7]:(?:on|off))+)")
_BUFFERS = re.compile(r"(?P<what>prio-buffer|buffer-size)(?P<pairs>(?:\s+[0-7]:\w{1,12})+)")
_DSCP = re.compile(r"dscp-prio(?P<pairs>(?:\s+\S{1,24}:[0-7])+)")
_ORDER = re.compile(r"^order: (?P<order>(?:\w{2,12} ?){1,8})", re.MULTILINE)
_DELAY = re.compile(r"\bdelay (?P<delay>\d{1,6})")
# DSCP names that dcb prints without -N; iproute2 lib/rt_names.c and /etc/iproute2/rt_dsfield, in RFC 2474 numbers.
_NAMES = {"CS0": 0, "CS1": 8, "CS2": 16, "CS3": 24, "CS4": 32, "CS5": 40, "CS6": 48, "CS7": 56, "EF": 46, "VA": 44} | {
    f"AF{group}{drop}": 8 * group + 2 * drop for group in range(1, 5) for drop in range(1, 4)
}


def parse(block: Block) -> list[Fact] | Unknown:
    netdev = argument(block.command, "dev") or "(interface not named)"
    text = block.output.strip()
    if "Operation not supported" in text:
        return _refused(block, netdev, "this interface has no DCB operations; ask the physical interface below it")
    if block.rc not in (0, None):
        return Unknown(f"dcb gave nothing for {netdev}: {text[:200]}")
    if text.startswith("{"):
        return _from_json(block, netdev, text)
    facts: list[Fact] = []
    if pfc := _PFC.search(text):
        facts.append(_pfc(block, netdev, [p.partition(":") for p in pfc["pairs"].split()]))
    if dscp := _DSCP.search(text):
        facts += _app(block, netdev, [p.rpartition(":")[::2] for p in dscp["pairs"].split()])
    elif "app" in words(block.command):
        facts.append(QosTrust(quote=block.quote(text or "(no entry)"), netdev=netdev, trust="pcp"))
    if "dcbx" in words(block.command) and text:
        owner = "os" if "host" in text.split() else "firmware" if "lld-managed" in text.split() else None
        facts.append(
            QosDcbx(
                quote=block.quote(text), netdev=netdev, owner=owner or Unknown("dcb names neither host nor firmware")
            )
        )
    if order := _ORDER.search(text):
        facts.append(_trust(block, netdev, order["order"].split()))
    facts += _buffer(block, netdev, text)
    return facts


def _trust(block: Block, netdev: str, order: list[str]) -> QosTrust:
    """Of DSCP and PCP the one that stands first classifies a packet that carries both."""
    first = next((word for word in order if word in ("dscp", "pcp")), "")
    trust = first or Unknown(f"dcb: {netdev}: neither DSCP nor PCP is in the order of trust")
    return QosTrust(quote=block.quote(f"order: {' '.join(order)}"), netdev=netdev, trust=trust)


def _refused(block: Block, netdev: str, why: str) -> list[Fact]:
    quote, reason = block.quote(block.output.strip()), Unknown(f"dcb: {netdev}: {why}")
    if "pfc" in words(block.command):
        return [QosPfc(quote=quote, netdev=netdev, enabled=reason)]
    if "app" in words(block.command):
        return [QosTrust(quote=quote, netdev=netdev, trust=reason)]
    return []


def _pfc(block: Block, netdev: str, pairs: list[tuple[str, str, str]]) -> QosPfc:
    enabled = frozenset(int(priority) for priority, _, state in pairs if state == "on")
    return QosPfc(
        quote=block.quote("prio-pfc " + " ".join("".join(pair) for pair in pairs)), netdev=netdev, enabled=enabled
    )


def _app(block: Block, netdev: str, pairs: list[tuple[str, ...]]) -> list[Fact]:
    """mlx5 trusts DSCP while its APP table holds a DSCP entry (mlnx_qos, en_dcbnl.c)."""
    priority: dict[int, int] = {}
    for name, value in pairs:
        number = int(name) if name.isdecimal() and len(name) < 3 else _NAMES.get(name.upper())
        if number is not None:
            priority[number] = int(value)
    quote = block.quote("dscp-prio " + " ".join(f"{name}:{value}" for name, value in pairs))
    return [
        QosTrust(quote=quote, netdev=netdev, trust="dscp"),
        QosDscpMap(quote=quote, netdev=netdev, priority=priority),
    ]


def _buffer(block: Block, netdev: str, text: str) -> list[Fact]:
    rows = {m["what"]: [p.split(":") for p in m["pairs"].split()] for m in _BUFFERS.finditer(text)}
    if "buffer-size" not in rows:
        return []
    return [
        QosBuffer(
            quote=block.quote(text),
            netdev=netdev,
            sizes=tuple(_bytes(value) for _, value in rows["buffer-size"]),
            buffer_of=tuple(int(value) for _, value in rows.get("prio-buffer", []) if value.isdecimal()),
            cable_m=int(delay["delay"]) if (delay := _DELAY.search(text)) else Unknown("no delay was printed"),
        )
    ]


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d{1,12})(?:b|Kb|K|Mb|M)?", text)
    scale = 1024 if "K" in text else 1024**2 if "M" in text else 1
    return int(match[1]) * scale if match else 0


def _from_json(block: Block, netdev: str, text: str) -> list[Fact] | Unknown:
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        return Unknown("dcb printed JSON that cannot be read")
    facts: list[Fact] = []
    if not isinstance(data, dict):
        return Unknown("dcb printed JSON of another form")
    if isinstance(order := data.get("order"), list):
        facts.append(_trust(block, netdev, [str(word) for word in order[:8]]))
    if data.get("host") is True or data.get("lld_managed") is True:
        owner = "os" if data.get("host") is True else "firmware"
        facts.append(QosDcbx(quote=block.quote(text), netdev=netdev, owner=owner))
    sizes, buffer_of = (_numbers(data.get(key)) for key in ("buffer_size", "prio_buffer"))
    if sizes:
        unsaid = Unknown("no delay was printed")
        facts.append(
            QosBuffer(quote=block.quote(text), netdev=netdev, sizes=sizes, buffer_of=buffer_of, cable_m=unsaid)
        )
    pfc = data.get("prio_pfc")
    if isinstance(pfc, list):
        on = frozenset(priority for priority, state in enumerate(pfc[:8]) if state is True)
        facts.append(QosPfc(quote=block.quote(text), netdev=netdev, enabled=on))
    dscp = data.get("dscp_prio")
    if isinstance(dscp, list):
        pairs = [(str(p[0]), str(p[1])) for p in dscp if isinstance(p, list) and len(p) >= 2]
        facts += _app(block, netdev, [pair for pair in pairs if pair[1] in "01234567"])
    return facts


def _numbers(value: object) -> tuple[int, ...]:
    listed = value if isinstance(value, list) else []
    return tuple(number for number in listed[:16] if isinstance(number, int) and not isinstance(number, bool))


READER = Reader("dcb", lambda block: runs(block, "dcb"), parse)
