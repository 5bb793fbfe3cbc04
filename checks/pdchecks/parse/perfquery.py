"""perfquery (infiniband-diags): `SymbolErrorCounter:..............65535`, in the words of the specification."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import RdmaCounters
from pdchecks.parse.reader import Reader, argument, looks_like, runs
from pdchecks.unknown import Unknown

_HEAD = re.compile(r"# Port (?:extended )?counters: (?:Lid \d{1,5}|DR path \S{1,40}) port (?P<port>\d{1,3})")
_LINE = re.compile(r"(?P<name>[A-Za-z0-9]{4,40}):\.{1,40}(?P<value>\d{1,20})\s*")
# The names that sysfs gives to the same counters; linux drivers/infiniband/core/sysfs.c.
_NAMES = {
    "SymbolErrorCounter": "symbol_error",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "PortRcvErrors": "port_rcv_errors",
    "PortRcvRemotePhysicalErrors": "port_rcv_remote_physical_errors",
    "PortRcvSwitchRelayErrors": "port_rcv_switch_relay_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "PortXmitConstraintErrors": "port_xmit_constraint_errors",
    "PortRcvConstraintErrors": "port_rcv_constraint_errors",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors",
    "VL15Dropped": "VL15_dropped",
    "PortXmitData": "port_xmit_data",
    "PortRcvData": "port_rcv_data",
    "PortXmitPkts": "port_xmit_packets",
    "PortRcvPkts": "port_rcv_packets",
    "PortXmitWait": "port_xmit_wait",
}


def parse(block: Block) -> list[Fact] | Unknown:
    asked = argument(block.command, "-C") or next(
        (w for w in words(block.command) if re.match(r"(?:mlx|ib)\w+_\d", w)), ""
    )
    port, values = 1, dict[str, int]()
    for line in (line[:200] for line in block.lines):
        if head := _HEAD.match(line):
            port = int(head["port"])
        elif (match := _LINE.fullmatch(line)) and match["name"] in _NAMES:
            values[_NAMES[match["name"]]] = int(match["value"])
    if not values:
        return Unknown(f"perfquery printed no counters: {block.output.strip()[:200]}")
    quote = block.quote("; ".join(f"{name}: {value}" for name, value in values.items()))
    return [RdmaCounters(quote=quote, device=asked or "(device not named)", port=port, values=values)]


READER = Reader("perfquery", lambda block: runs(block, "perfquery") or looks_like(block, _HEAD), parse)
