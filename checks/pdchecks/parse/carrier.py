"""Links that went down, in syslog, journal or kernel log: systemd-networkd, NetworkManager, drivers. Syslog has no year."""

import re
from datetime import UTC, datetime

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.log import CarrierLost
from pdchecks.parse.reader import Reader, lines_with, looks_like
from pdchecks.unknown import Unknown

_LOST = (
    # systemd-networkd: "ib6: lost carrier" (Lost since 246)
    re.compile(r"\b(?P<interface>[\w.-]{1,16}): [Ll]ost carrier"),
    # mlx5 en_main.c: "mlx5_core 0000:..: eth2: Link down"; ice, bnxt: "eth2: NIC Link is Down"
    re.compile(r"\b(?P<interface>[\w.-]{1,16}): (?:NIC )?[Ll]ink (?:is )?[Dd]own\b"),
    # NetworkManager: "device (eth2): carrier: link disconnected"
    re.compile(r"device \((?P<interface>[\w.-]{1,16})\): (?:carrier: )?link disconnected"),
)
_SYSLOG = re.compile(r"(?P<month>[A-Z][a-z]{2})\s{1,2}(?P<day>\d{1,2}) (?P<time>\d{2}:\d{2}:\d{2})")
_ISO = re.compile(r"(?P<iso>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2})")
_BOOT = re.compile(r"\[\s{0,8}(?P<seconds>\d{1,9}\.\d{1,9})\]")
_HUMAN = re.compile(
    r"\[[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2})\s{1,2}(?P<day>\d{1,2}) (?P<time>\d{2}:\d{2}:\d{2}) (?P<year>\d{4})\]"
)
_SHAPE = re.compile(r"[Ll]ost carrier|[Ll]ink (?:is )?[Dd]own\b|link disconnected")
# A leap year, so that the 29th of February reads in a log that does not name the year.
_YEAR = "2024"


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    for line in lines_with(block, _SHAPE):
        text = line[:600]
        match = next((found for pattern in _LOST if (found := pattern.search(text))), None)
        if match:
            facts.append(CarrierLost(quote=block.quote(text), interface=match["interface"], seconds=_seconds(text)))
    return facts


def _seconds(line: str) -> float | Unknown:
    if boot := _BOOT.match(line):
        return float(boot["seconds"])
    human = _HUMAN.match(line)
    stamp = human or _SYSLOG.match(line)
    try:
        if stamp:
            year = human["year"] if human else _YEAR
            text = f"{year} {stamp['month']} {stamp['day']} {stamp['time']}"
            return datetime.strptime(text, "%Y %b %d %H:%M:%S").replace(tzinfo=UTC).timestamp()
        if iso := _ISO.match(line):
            return datetime.fromisoformat(iso["iso"]).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        pass
    return Unknown("the line has no time that can be read")


def _claims(block: Block) -> bool:
    return looks_like(block, _SHAPE) or any(word in block.command for word in ("syslog", "journalctl", "/var/log/"))


READER = Reader("carrier log", _claims, parse, events=True)
