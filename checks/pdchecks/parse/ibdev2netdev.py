"""ibdev2netdev (mlnx-tools), plain and -v: `mlx5_0 port 1 ==> ens4f0 (Up)`. It prints the interface's state, not the port's."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import RdmaDevice, RdmaPort
from pdchecks.parse.reader import Reader, given, looks_like, runs
from pdchecks.unknown import Unknown

_LINE = re.compile(
    r"(?:(?P<bus>[0-9a-f:.]{7,14}) )?(?P<device>[A-Za-z][\w.-]{1,63}) (?:\(MT(?P<part>\d{4,6})[^)]{0,80}\) .{0,160}?)?"
    r"(?:fw (?P<firmware>[\d.]{3,24}) )?port (?P<port>\d{1,3}) (?:\((?P<state>[A-Z_ ]{2,20})\s{0,3}\) )?==> "
    r"(?P<netdev>\S{1,32}) \((?P<up>Up|Down)\)"
)
_SHAPE = re.compile(r"^.{1,300}port \d+ .{0,30}==> \S+ \((?:Up|Down)\)", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    for line in block.lines:
        match = _LINE.match(line[:400].strip())
        if match is None:
            continue
        why = Unknown("ibdev2netdev does not print it")
        state = (match["state"] or ("ACTIVE" if match["up"] == "Up" else "DOWN")).strip()
        facts.append(
            RdmaPort(
                quote=block.quote(line.strip()),
                device=match["device"],
                port=int(match["port"]),
                state=state,
                physical=why,
                layer=why,
                rate_gbps=why,
                lid=why,
                netdev=match["netdev"],
            )
        )
        if match["firmware"]:
            facts.append(
                RdmaDevice(
                    quote=block.quote(line.strip()),
                    device=match["device"],
                    firmware=given(match["firmware"], "the firmware version"),
                    part=int(match["part"]) if match["part"] else why,
                    psid=why,
                )
            )
    if not facts and block.rc not in (0, None):
        return Unknown(f"ibdev2netdev gave nothing: {block.output.strip()[:200]}")
    return facts


READER = Reader("ibdev2netdev", lambda block: runs(block, "ibdev2netdev") or looks_like(block, _SHAPE), parse)
