"""Outputs that are known and hold nothing that a check judges: they are no leftovers. This list is the table of contents."""

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.parse.reader import Reader, runs, subcommand
from pdchecks.unknown import Unknown

# tool -> its subcommands; none: whatever it is asked.
_ASIDES: dict[str, tuple[str, ...]] = {
    "rdma": ("resource", "res", "system", "sys", "monitor"),
    "ip": ("rule", "ru", "maddr", "netns"),
    "dcb": ("ets", "maxrate", "rewr"),
    "hostname": (),
    "hostnamectl": (),
    "lscpu": (),
    "numactl": (),
    "nproc": (),
    "whoami": (),
    "date": (),
    "ls": (),
    "yum": (),
    "dnf": (),
    "apt": (),
    "apt-get": (),
    "pip": (),
}


def parse(block: Block) -> list[Fact] | Unknown:
    return []


def _claims(block: Block) -> bool:
    first = next((word for word in words(block.command) if word and word != "sudo"), "")
    single = subcommand(block.command, "rdma").startswith("stat") and runs(block, "qp", "mr", "mode")
    return single or (first in _ASIDES and (not _ASIDES[first] or subcommand(block.command, first) in _ASIDES[first]))


READER = Reader("asides", _claims, parse, events=True)
