"""ibstat (infiniband-diags/ibstat.c). irdma leaves the type and hardware version empty; posts lose lines; with a port
number the tool prints no tabs and `CA: 'x'`; rdma-core 65 adds "Effective speed" after the rate."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import RdmaDevice, RdmaPort
from pdchecks.parse.reader import Reader, given, integer, looks_like, runs
from pdchecks.unknown import Unknown

_CA = re.compile(r"\s*CA:? '(?P<device>[^']{1,64})'")
_PORT = re.compile(r"\s*Port (?P<port>\d{1,3}):")
_FIELD = re.compile(r"\s*(?P<key>[A-Z][A-Za-z ]{1,30}):(?P<value>.*)")
_SHAPE = re.compile(r"^[ \t]*CA:? '[^']+'\s*$", re.MULTILINE)
_RATE = re.compile(r"\d{1,6}(\.\d{1,3})?")
_LAYERS = {"ib": "InfiniBand", "infiniband": "InfiniBand", "ethernet": "Ethernet"}
# libibumad's words for states that the kernel and rdma(8) name otherwise.
_STATES = {"initializing": "INIT", "initialize": "INIT"}
_PHYSICAL = {"linkup": "LINK_UP", "disabled": "DISABLED", "polling": "POLLING", "sleep": "SLEEP"}


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    device, fields, head = "", dict[str, str](), ""
    port: int | None = None
    ports: list[tuple[int, str, dict[str, str]]] = []

    def close() -> None:
        if not device:
            return
        facts.append(_device(block, device, head, fields))
        facts.extend(_port(block, device, number, line, values) for number, line, values in ports)

    for line in block.lines:
        if ca := _CA.match(line):
            close()
            device, fields, head, port, ports = ca["device"], {}, line, None, []
        elif match := _PORT.match(line):
            port = int(match["port"])
            ports.append((port, line, {}))
        elif field := _FIELD.match(line):
            target = ports[-1][2] if port is not None and ports else fields
            target.setdefault(field["key"].lower(), field["value"].strip())
    close()
    if not facts and block.rc not in (0, None):
        return Unknown(f"ibstat gave no device: {block.output.strip()[:200] or f'exit status {block.rc}'}")
    return facts


def _device(block: Block, device: str, head: str, fields: dict[str, str]) -> RdmaDevice:
    kind = re.fullmatch(r"MT(\d{4,6})", fields.get("ca type", ""))
    firmware = fields.get("firmware version")
    return RdmaDevice(
        quote=block.quote(f"{head.strip()} Firmware version: {firmware}" if firmware else head),
        device=device,
        firmware=given(firmware, "the firmware version"),
        part=int(kind[1]) if kind else Unknown("ibstat names no Mellanox part"),
        psid=Unknown("ibstat prints no PSID"),
    )


def _port(block: Block, device: str, number: int, head: str, fields: dict[str, str]) -> RdmaPort:
    rate = _RATE.match(fields.get("rate", ""))
    physical = fields.get("physical state")
    layer = fields.get("link layer")
    state = fields.get("state")
    shown = ", ".join(f"{key}: {fields[key]}" for key in ("state", "physical state", "rate") if key in fields)
    return RdmaPort(
        quote=block.quote(f"CA '{device}' {head.strip()} {shown}"),
        device=device,
        port=number,
        state=given(_STATES.get(state.lower(), state.upper()) if state else None, "the port state"),
        physical=given(_PHYSICAL.get(physical.lower(), physical.upper()) if physical else None, "the physical state"),
        layer=given(_LAYERS.get(layer.lower(), layer) if layer else None, "the link layer"),
        rate_gbps=float(rate[0]) if rate else Unknown("the rate was not printed"),
        lid=integer(fields.get("base lid"), "the base lid"),
        netdev=Unknown("ibstat names no network interface"),
    )


READER = Reader("ibstat", lambda block: runs(block, "ibstat") or looks_like(block, _SHAPE), parse)
