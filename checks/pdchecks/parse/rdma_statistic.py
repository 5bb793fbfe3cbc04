"""rdma(8) statistic show, as text and JSON: hardware counters of each port."""

import json
import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import RdmaCounters
from pdchecks.parse.reader import Reader, looks_like, subcommand
from pdchecks.unknown import Unknown

_LINE = re.compile(r"link (?P<device>[^/\s]{1,64})/(?P<port>\d{1,3})(?: (?P<rest>.*))?")
_SHAPE = re.compile(r"^link \S+/\d+ [a-z_]+ \d+", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    text = block.output.strip()
    if text.startswith("["):
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError):
            return Unknown("rdma printed JSON that cannot be read")
        return [
            _counters(block, row["ifname"], row["port"], {k: v for k, v in row.items() if _is_counter(k, v)})
            for row in rows
            if isinstance(row, dict) and isinstance(row.get("ifname"), str) and isinstance(row.get("port"), int)
        ]
    facts: list[Fact] = []
    pending: tuple[str, int, list[str]] | None = None
    for line in [*block.lines, "link end/0"]:
        # One port's counters wrap over several lines, the later ones without a head.
        if head := _LINE.match(line):
            if pending is not None:
                facts.append(_from_words(block, *pending))
            pending = (head["device"], int(head["port"]), (head["rest"] or "").split())
        elif pending is not None:
            pending[2].extend(line.split())
    return facts


def _from_words(block: Block, device: str, port: int, parts: list[str]) -> RdmaCounters:
    pairs = zip(parts[::2], parts[1::2], strict=False)
    return _counters(block, device, port, {name: int(v) for name, v in pairs if v.isdecimal() and len(v) < 25})


def _is_counter(key: str, value: object) -> bool:
    return key not in {"ifindex", "port"} and isinstance(value, int) and not isinstance(value, bool)


def _counters(block: Block, device: str, port: int, values: dict[str, int]) -> RdmaCounters:
    return RdmaCounters(quote=block.quote(f"link {device}/{port}"), device=device, port=port, values=values)


def _claims(block: Block) -> bool:
    # Of single queue pairs, memory regions and modes it prints other things.
    asked = subcommand(block.command, "rdma")
    single = any(word in ("qp", "mr", "mode", "supported") for word in words(block.command))
    return (asked.startswith("stat") and not single) or (not asked and looks_like(block, _SHAPE))


READER = Reader("rdma statistic", _claims, parse)
