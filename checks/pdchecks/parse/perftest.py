"""perftest: ib_write_bw, ib_read_lat and sisters. WARNING lines stand inside the header; failures are plain sentences."""

import re

from pdchecks.active.marker import peer_of
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
_LAYER = re.compile(r"^ Link type\s+: (?P<layer>Ethernet|IB|Unknown)", re.MULTILINE)
_UNIT = re.compile(r"#bytes\s.*BW average\[(?P<unit>Gb/sec|MiB/sec|MB/sec)\]")
_ROW = re.compile(
    r"\s{0,20}(?P<bytes>\d{1,12})\s{1,30}\d{1,12}\s{1,30}-?\d{1,9}\.\d{1,9}\s{1,30}(?P<average>\d{1,9}\.\d{1,9})\b"
)
# perftest_parameters.c: what it calls MB is 2^20 bytes; newer versions write MiB.
_GBPS = {"Gb/sec": 1.0, "MiB/sec": 2**20 * 8e-9, "MB/sec": 2**20 * 8e-9}
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
            quote=block.quote("; ".join([*failures[:1], *shown]) or text.strip()[:200]),
            tool=tool or (banner["test"] if banner else "perftest"),
            device=device,
            mtu=int(mtu["mtu"]) if mtu else Unknown("the run printed no MTU"),
            layer=layer["layer"] if (layer := _LAYER.search(text)) else "",
            averages=_averages(block),
            both_ways="Bidirectional" in text or bool({"-b", "--bidirectional"} & set(block.command.split())),
            cuda=bool(_CUDA.search(block.command) or _CUDA.search(text)),
            ordering_warning=_ORDERING in text,
            failures=failures,
            status=int(status["status"]) if status else None,
            to=peer_of(block.command),
            by=peer_of(block.command, served=True),
        )
    ]


def _averages(block: Block) -> dict[int, float]:
    averages: dict[int, float] = {}
    scale = 0.0
    for line in block.lines:
        if head := _UNIT.search(line[:400]):
            scale = _GBPS[head["unit"]]
        elif scale and (row := _ROW.match(line)):
            averages[int(row["bytes"])] = float(row["average"]) * scale
    return averages


def _claims(block: Block) -> bool:
    return any(_TOOL.fullmatch(word) for word in words(block.command)) or looks_like(block, _BANNER)


READER = Reader("perftest", _claims, parse)
