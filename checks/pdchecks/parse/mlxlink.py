"""mlxlink (MFT, mstlink): the operational section of a port, and what the card itself recommends."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import RdmaPort
from pdchecks.parse.reader import Reader, argument, looks_like, runs
from pdchecks.unknown import Unknown

_FIELD = re.compile(r"(?P<key>State|Physical state|Speed|Recommendation)\s{1,40}: (?P<value>\S.{0,120})")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,8}m")
_SPEED = re.compile(r"(?:IB-)?(?:(?P<gigabit>\d{1,4})G\w{0,3}|(?P<name>[A-Z]{3,5}))")
# InfiniBand's speeds for four lanes, Gbit/s.
_NAMED = {"QDR": 40, "FDR": 56, "EDR": 100, "HDR": 200, "NDR": 400, "XDR": 800}
_SHAPE = re.compile(r"^Operational Info\s*$", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    fields: dict[str, str] = {}
    for line in block.lines:
        if match := _FIELD.fullmatch(_COLOUR.sub("", line).rstrip()):
            fields.setdefault(match["key"], match["value"].strip())
    if "State" not in fields or "Physical state" not in fields:
        return Unknown(f"mlxlink gave nothing: {' '.join(block.output.split())[:200]}") if block.rc else []
    up = fields["State"] == "Active"
    unsaid = Unknown("mlxlink does not print it")
    shown = "; ".join(f"{key}: {value}" for key, value in fields.items())
    return [
        RdmaPort(
            quote=block.quote(shown),
            device=argument(block.command, "-d") or "(device not named)",
            port=1,
            state="ACTIVE" if up else "DOWN",
            physical="LINK_UP"
            if fields["Physical state"] in ("LinkUp", "LINK_UP")
            else fields["Physical state"].upper(),
            layer=unsaid,
            rate_gbps=_rate(fields.get("Speed", "")),
            lid=unsaid,
            netdev=unsaid,
        )
    ]


def _rate(speed: str) -> float | Unknown:
    match = _SPEED.match(speed)
    if match and match["gigabit"]:
        return float(match["gigabit"])
    named = _NAMED.get(match["name"]) if match else None
    return float(named) if named else Unknown("mlxlink printed no speed")


READER = Reader(
    "mlxlink", lambda block: runs(block, "mlxlink", "mstlink") or looks_like(block, _SHAPE), parse, events=True
)
