"""ibstatus (infiniband-diags): the words of sysfs under a head per port."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import RdmaPort
from pdchecks.parse.reader import Reader, given, integer, looks_like, runs
from pdchecks.unknown import Unknown

_HEAD = re.compile(r"Infiniband device '(?P<device>[^']{1,64})' port (?P<port>\d{1,3}) status:")
_FIELD = re.compile(r"\s{1,8}(?P<key>[a-z_ ]{2,24}):\s{0,8}(?P<value>\S.{0,100})")
_STATE = re.compile(r"\d: ?(?P<word>\w+)")
_RATE = re.compile(r"(?P<rate>\d{1,6}(?:\.\d{1,3})?) Gb/sec")


def parse(block: Block) -> list[Fact] | Unknown:
    ports: list[tuple[str, int, dict[str, str]]] = []
    for line in block.lines:
        if head := _HEAD.match(line):
            ports.append((head["device"], int(head["port"]), {}))
        elif ports and (field := _FIELD.match(line)):
            ports[-1][2].setdefault(field["key"].strip(), field["value"].strip())
    if not ports and block.rc not in (0, None):
        return Unknown(f"ibstatus gave nothing: {block.output.strip()[:200]}")
    return [_port(block, *port) for port in ports]


def _port(block: Block, device: str, port: int, fields: dict[str, str]) -> RdmaPort:
    state, physical, rate = (
        pattern.match(fields.get(key, ""))
        for pattern, key in ((_STATE, "state"), (_STATE, "phys state"), (_RATE, "rate"))
    )
    word = physical["word"] if physical else None
    return RdmaPort(
        quote=block.quote(f"'{device}' port {port} state: {fields.get('state')} rate: {fields.get('rate')}"),
        device=device,
        port=port,
        state=given(state["word"].upper() if state else None, "the port state"),
        physical={"linkup": "LINK_UP"}.get(word.lower(), word.upper())
        if word
        else Unknown("no phys state was printed"),
        layer=given(fields.get("link_layer"), "link_layer"),
        rate_gbps=float(rate["rate"]) if rate else Unknown("the rate was not printed"),
        lid=integer(fields.get("base lid"), "the base lid"),
        netdev=Unknown("ibstatus names no network interface"),
    )


READER = Reader("ibstatus", lambda block: runs(block, "ibstatus") or looks_like(block, _HEAD), parse)
