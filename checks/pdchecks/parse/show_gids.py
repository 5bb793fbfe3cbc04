"""show_gids (mlnx-tools): a TAB table whose IPv4 and last DEV columns may be empty."""

import re
from ipaddress import AddressValueError, IPv6Address

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import Gid
from pdchecks.parse.reader import Reader, looks_like, runs
from pdchecks.unknown import Unknown

_SHAPE = re.compile(r"^DEV\s+PORT\s+INDEX\s+GID\s|^n_gids_found=", re.MULTILINE)
# The columns by their form, so that a post whose tabs became spaces reads the same.
_ROW = re.compile(
    r"(?P<device>[A-Za-z0-9_.-]{1,64})\s+(?P<port>\d{1,3})\s+(?P<index>\d{1,4})\s+(?P<gid>[0-9a-fA-F:]{8,39})"
    r"(?:\s+(?P<ipv4>\d{1,3}(?:\.\d{1,3}){3}))?\s+(?:RoCE\s+)?[vV](?P<version>[12](?:\.5)?)(?:\s+(?P<netdev>\S{1,32}))?\s*"
)


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    for line in block.lines:
        row = _ROW.fullmatch(line)
        if row is None:
            continue
        try:
            address = IPv6Address(row["gid"])
        except AddressValueError:
            continue
        facts.append(
            Gid(
                quote=block.quote(" ".join(line.split())),
                device=row["device"],
                port=int(row["port"]),
                index=int(row["index"]),
                address=address,
                version=2 if row["version"] == "2" else 1,
                netdev=row["netdev"] or Unknown("the GID has no network interface in this namespace"),
            )
        )
    if not facts and "n_gids_found" not in block.output:
        return Unknown(f"show_gids printed no table: {block.output.strip()[:200]}")
    return facts


READER = Reader("show_gids", lambda block: runs(block, "show_gids") or looks_like(block, _SHAPE), parse, events=True)
