"""What a CUDA program prints when the driver refuses it: PyTorch's and the CUDA runtime's own words, in any log."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.log import CudaRefused, GpuOutOfMemory
from pdchecks.parse.reader import Reader, mentions
from pdchecks.unknown import Unknown

# cudaGetErrorString(), CUDA Runtime API, 6.1 (error numbers 802, 35, 803, 804, 214, 46, 100); torch c10/cuda/CUDAFunctions.cpp.
_REFUSALS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("not-initialised", re.compile(r"(?:Error 802: )?system not yet initialized")),
    (
        "driver-too-old",
        re.compile(
            r"NVIDIA driver on your system is too old \(found version \d{3,6}\)"
            r"|CUDA driver version is insufficient for CUDA runtime version"
        ),
    ),
    ("driver-mixed", re.compile(r"system has unsupported display driver / cuda driver combination")),
    ("no-forward", re.compile(r"forward compatibility was attempted on non supported HW")),
    ("ecc", re.compile(r"(?:CUDA error: )?uncorrectable ECC error encountered")),
    ("busy", re.compile(r"CUDA-capable device\(s\) is/are busy or unavailable")),
    # NVIDIA's fabric manager, its own log and journal
    (
        "fabric-version",
        re.compile(
            r"fabric manager (?:NVIDIA GPU driver interface )?version \S{3,16} don'?t match with driver version [\d.]{3,16}"
        ),
    ),
    ("no-device", re.compile(r"no CUDA-capable device is detected|No CUDA GPUs are available")),
)
_SIZE = r"\d{1,7}(?:\.\d{1,3})? (?:[KMG]iB|bytes)"
_MEMORY = re.compile(
    rf"CUDA out of memory\. Tried to allocate (?P<asked>{_SIZE})\.? ?\(?(?:GPU (?P<gpu>\d{{1,3}}))?(?P<rest>.{{0,1500}})"
)
_TOTAL = re.compile(rf"total capacity of (?P<total>{_SIZE})|(?P<old>{_SIZE}) total capacity")
_FREE = re.compile(rf"of which (?P<free>{_SIZE}) is free|(?P<old>{_SIZE}) free")
_OTHER = re.compile(rf"Process \d{{1,9}} has (?P<held>{_SIZE}) memory in use")
_NEEDED = (
    "not yet initialized", "too old (found version", "is insufficient for CUDA runtime", "cuda driver combination",
    "forward compatibility was", "uncorrectable ECC error enc", "busy or unavailable", "CUDA-capable device is detected",
    "No CUDA GPUs", "CUDA out of memory", "match with driver version",
)  # fmt: skip


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    for line in block.lines:
        if not any(part in line for part in _NEEDED):
            continue
        if memory := _MEMORY.search(line):
            facts.append(_out_of_memory(block, memory))
            continue
        found = next(((kind, match) for kind, pattern in _REFUSALS if (match := pattern.search(line))), None)
        if found:
            start = max(0, found[1].start() - 120)
            facts.append(CudaRefused(quote=block.quote(line[start : start + 360]), kind=found[0], words=found[1][0]))
    return facts


def _out_of_memory(block: Block, match: re.Match[str]) -> GpuOutOfMemory:
    total, free = _TOTAL.search(match["rest"]), _FREE.search(match["rest"])
    return GpuOutOfMemory(
        quote=block.quote(match[0][:360]),
        gpu=match["gpu"] or "",
        asked=match["asked"],
        free=(free["free"] or free["old"]) if free else "",
        total=(total["total"] or total["old"]) if total else "",
        others=tuple(_OTHER.findall(match["rest"])),
    )


READER = Reader("CUDA log", lambda block: mentions(block, *_NEEDED), parse, events=True)
