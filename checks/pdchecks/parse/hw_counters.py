"""RDMA counters without their paths, as loops over hw_counters and pasted excerpts print them: `out_of_sequence: 5`."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import RdmaCounters
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

_LINE = re.compile(r"\s{0,16}(?P<name>[a-z][a-z0-9_]{3,48})\s{0,40}[:= ]\s{0,40}\+?(?P<value>\d{1,20})\s{0,8}")
# Names that only RDMA devices count by; linux drivers/infiniband/hw/mlx5/counters.c and bnxt_re/hw_counters.c.
_TELLING = re.compile(
    r"^\s{0,16}(?:np_cnp_sent|np_ecn_marked_roce_packets|rp_cnp_(?:handled|ignored)|out_of_sequence|packet_seq_err|"
    r"local_ack_timeout_err|rnr_nak_retry_err|roce_adp_retrans|implied_nak_seq_err|to_retransmits|seq_err_naks_rcvd)"
    r"\s{0,40}[:= ]\s{0,40}\+?\d",
    re.MULTILINE,
)
_PLACE = re.compile(r"infiniband/(?P<device>[\w.-]{1,64})(?:/ports/(?P<port>\d{1,3}))?|\b(?P<named>mlx5_\w{1,16})\b")


def parse(block: Block) -> list[Fact] | Unknown:
    values: dict[str, int] = {}
    for line in (line[:200] for line in block.lines):
        if match := _LINE.fullmatch(line):
            values[match["name"]] = int(match["value"])
    if not values:
        return []
    place = _PLACE.search(block.command)
    device = (place["device"] or place["named"]) if place else "(device not named)"
    port = int(place["port"]) if place and place["port"] else 1
    quote = block.quote("; ".join(f"{name}: {value}" for name, value in values.items()))
    return [RdmaCounters(quote=quote, device=device, port=port, values=values)]


READER = Reader("hw_counters", lambda block: _TELLING.search(block.output, 0, 20_000) is not None, parse)
