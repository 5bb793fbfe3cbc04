"""XID errors in the kernel log: what the driver said of a GPU, by number."""

from collections.abc import Iterator
from dataclasses import dataclass

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.log import KernelEvent
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


@dataclass(frozen=True, slots=True)
class _Xid:
    status: Status
    meaning: str
    action: str


_APPLICATION = (
    "Look for the fault in the program first: run it under compute-sanitizer; a GPU that does it alone is suspect."
)
_RESET = "Drain the node, reset the GPU, run dcgmi diag -r 3; if it comes back, have the GPU replaced."
_REBOOT = "Drain the node and power it off and on; check seating, power and risers; if it comes back, replace the GPU."
_LINK = (
    "Drain the node, reset all GPUs of the NVLink domain together, look at nvidia-smi nvlink -e and the fabric manager."
)

# NVIDIA "XID Errors" (docs.nvidia.com/deploy/xid-errors), the catalogue's numbers, causes and recommended actions.
_CATALOGUE = {
    8: _Xid(Status.WARN, "the GPU stopped processing: a kernel ran past the time limit", _APPLICATION),
    13: _Xid(Status.WARN, "an exception of the graphics engine, mostly a fault of the program", _APPLICATION),
    31: _Xid(Status.WARN, "a memory page fault, mostly an illegal address in the program", _APPLICATION),
    32: _Xid(Status.WARN, "a corrupted push buffer: driver, bus or program", _APPLICATION),
    38: _Xid(Status.FAIL, "an error of the driver's firmware", _RESET),
    43: _Xid(
        Status.WARN, "the GPU stopped processing for one program, which faulted; the GPU itself is sound", _APPLICATION
    ),
    44: _Xid(Status.FAIL, "a fault of the graphics engine during a context switch", _RESET),
    45: _Xid(
        Status.INFO, "a channel was cleaned up after its program ended or after an earlier XID", "See what came before."
    ),
    46: _Xid(Status.FAIL, "the GPU stopped processing", _RESET),
    48: _Xid(Status.FAIL, "a double-bit ECC error: data in GPU memory is lost", _RESET),
    54: _Xid(Status.FAIL, "the auxiliary power cable is not connected", _REBOOT),
    61: _Xid(Status.FAIL, "an internal micro-controller halted", _RESET),
    62: _Xid(Status.FAIL, "an internal micro-controller halted", _RESET),
    63: _Xid(Status.WARN, "a memory row is marked for remapping; the remapping happens at the next reset", _RESET),
    64: _Xid(Status.FAIL, "a bad memory row could not be recorded for remapping", _RESET),
    68: _Xid(Status.WARN, "an exception of the video decoder", _APPLICATION),
    69: _Xid(Status.WARN, "a class error of the graphics engine", _APPLICATION),
    74: _Xid(Status.FAIL, "an NVLink error", _LINK),
    79: _Xid(Status.FAIL, "the GPU has fallen off the bus", _REBOOT),
    92: _Xid(Status.WARN, "a high rate of single-bit ECC errors", _RESET),
    94: _Xid(Status.FAIL, "an uncorrectable memory error, contained: only the program that met it died", _RESET),
    95: _Xid(
        Status.FAIL,
        "an uncorrectable memory error that was not contained: every program on the GPU is affected",
        _RESET,
    ),
    109: _Xid(Status.FAIL, "a context switch timed out", _RESET),
    110: _Xid(Status.FAIL, "a security fault", _REBOOT),
    119: _Xid(Status.FAIL, "the GPU's system processor (GSP) did not answer in time", _REBOOT),
    120: _Xid(Status.FAIL, "an error of the GPU's system processor (GSP)", _REBOOT),
    121: _Xid(Status.WARN, "a corrected error of the chip-to-chip link", _RESET),
    137: _Xid(Status.WARN, "a privilege error of NVLink memory access, mostly a fault of the program", _APPLICATION),
    140: _Xid(Status.FAIL, "an ECC error that was not recovered", _RESET),
    143: _Xid(Status.FAIL, "the GPU failed to initialise", _REBOOT),
    **dict.fromkeys(range(144, 151), _Xid(Status.FAIL, "an NVLink error", _LINK)),
    154: _Xid(
        Status.WARN, "the driver asks for another recovery action than before", "Do what the line names; drain first."
    ),
    171: _Xid(Status.FAIL, "an uncorrectable ECC error in the GPU's memory", _RESET),
    172: _Xid(Status.FAIL, "an uncorrectable ECC error in the GPU's caches or registers", _RESET),
}
_OTHER = _Xid(
    Status.WARN, "an event that the catalogue here does not explain", "Look the number up in NVIDIA's XID catalogue."
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    events: dict[tuple[str, int], list[KernelEvent]] = {}
    for event in node.all(KernelEvent):
        if event.kind == "xid" and event.detail.isdecimal():
            events.setdefault((event.device, int(event.detail)), []).append(event)
    yield from _switches(node)
    for (device, number), found in events.items():
        xid = _CATALOGUE.get(number, _OTHER)
        times = f", {len(found)} times" if len(found) > 1 else ""
        remedy = Remedy(xid.action, impact=Impact.REBOOT if xid.action is _REBOOT else Impact.RESTART_ENGINE)
        yield Verdict(
            xid.status,
            f"GPU {device} XID {number}",
            f"XID {number} on GPU {device}{times}: {xid.meaning}",
            "The NVIDIA driver logged it since the last boot or since the log begins."
            + (f" {xid.action}" if xid.status is Status.INFO else ""),
            tuple(event.quote for event in found[:4]),
            ("dmesg | grep -i xid", f"nvidia-smi -q -i {device}", "dcgmi diag -r 3"),
            None if xid.status is Status.INFO else remedy,
        )


def _switches(node: NodeFacts) -> Iterator[Verdict]:
    """NVSwitch reports its own numbers, and whether they are fatal."""
    for event in node.all(KernelEvent):
        if event.kind != "sxid":
            continue
        number, _, words = event.detail.partition(", ")
        fatal = not words.lower().startswith("non-fatal")
        yield Verdict(
            Status.FAIL if fatal else Status.WARN,
            f"NVSwitch {event.device} SXID {number}",
            f"SXID {number} on NVSwitch {event.device}: {words}",
            "A switch between the GPUs reported it; a fatal one ends programs on every GPU that it connects.",
            (event.quote,),
            ("dmesg | grep -i sxid", "nvidia-smi nvlink -s"),
            Remedy(_LINK, impact=Impact.RESTART_ENGINE),
        )


CHECK = NodeCheck(
    id="PD-GPU-005",
    topic="gpu.health",
    title="XID errors of the NVIDIA driver",
    severity=Severity.CRITICAL,
    tools=("dmesg",),
    sources=("https://docs.nvidia.com/deploy/xid-errors/", "NVIDIA open-gpu-kernel-modules, nverror.h"),
    need=Need.GPU,
    silence_passes=True,
    judge=judge,
)
