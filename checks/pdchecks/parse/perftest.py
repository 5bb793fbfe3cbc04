"""perftest: ib_write_bw, ib_read_lat and sisters. WARNING lines stand inside the header; failures are plain sentences."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.perftest import PerftestRun
from pdchecks.parse.reader import Reader, argument, looks_like
from pdchecks.unknown import Unknown

_TOOL = re.compile(r"(?:ib|raw_ethernet)_(?:write|read|send|atomic)?_?(?:bw|lat|burst_lat)")
_BANNER = re.compile(
    r"^ {10,30}(?P<test>(?:RDMA_)?[A-Z][\w ]{2,30}(?:BW|Latency|Lat) ?\w{0,12} Test)\s*$", re.MULTILINE
)
_DEVICE = re.compile(r"Device\s+: (?P<device>\S{1,40})")
_MTU = re.compile(r"^ Mtu\s+: (?P<mtu>\d{3,5})\[B\]", re.MULTILINE)
_STATUS = re.compile(r"Failed status (?P<status>\d{1,3}): wr_id")
_FAILURES = re.compile(
    r"Couldn't allocate MR|failed to create mr|Couldn't register|Failed status \d+: .{0,60}|Completion with error.{0,40}"
    r"|Failed to modify QP.{0,60}|Unable to (?:Connect|find|init).{0,80}|Failed to get .{0,60}|ERRNO: .{0,60}"
    r"|.{0,40}error=\d{1,3}.{0,40}",
    re.IGNORECASE,
)
_CUDA = re.compile(r"--use_cuda|--use_rocm|creating CUDA Ctx|initializing CUDA|cuMemAlloc|GPU buffer", re.IGNORECASE)
_ORDERING = "not PCIe relaxed ordering compliant"


def parse(block: Block) -> list[Fact] | Unknown:
    text = block.output
    tool = next((word for word in words(block.command) if _TOOL.fullmatch(word)), None)
    banner, named, mtu, status = (p.search(text) for p in (_BANNER, _DEVICE, _MTU, _STATUS))
    device = (named["device"] if named else None) or argument(block.command, "-d") or "(device not named)"
    failures = tuple(dict.fromkeys(match[0].strip() for match in _FAILURES.finditer(text)))[:12]
    shown = [line.strip() for line in block.lines if _ORDERING in line or line.startswith(" Mtu")]
    return [
        PerftestRun(
            quote=block.quote(failures[0] if failures else "; ".join(shown) or text.strip()[:200]),
            tool=tool or (banner["test"] if banner else "perftest"),
            device=device,
            mtu=int(mtu["mtu"]) if mtu else Unknown("the run printed no MTU"),
            cuda=bool(_CUDA.search(block.command) or _CUDA.search(text)),
            ordering_warning=_ORDERING in text,
            failures=failures,
            status=int(status["status"]) if status else None,
        )
    ]


def _claims(block: Block) -> bool:
    return any(_TOOL.fullmatch(word) for word in words(block.command)) or looks_like(block, _BANNER)


READER = Reader("perftest", _claims, parse)
