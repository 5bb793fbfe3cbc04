"""What kernels and applications wrote about RDMA."""

from dataclasses import dataclass
from ipaddress import IPv6Address

from pdchecks.facts.base import Fact
from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvent(Fact):
    """One line of the kernel log that means something. kind: see `parse/kernel_log.py`; detail: the words that vary.

    driver: where the line names one, else empty.
    """

    kind: str
    device: str
    detail: str
    driver: str
    seconds: float | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class CarrierLost(Fact):
    """seconds: within the log, from any origin; Unknown where the line has no time."""

    interface: str
    seconds: float | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class QpFailure(Fact):
    """A queue pair that an application could not bring up."""

    errno: int | Unknown
    words: str
    device: str | Unknown
    transition: str | Unknown
    local_gid: str | Unknown
    remote_gid: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCompletion(Fact):
    """A failed work completion. status: ibv_wc_status. device: the local one."""

    status: int
    vendor: int | Unknown
    device: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesInUse(Fact):
    """The devices that a communication library chose. layer: as it printed it (RoCE, IB), or Socket.

    No device at all: the library found none that it could use.
    """

    devices: tuple[str, ...]
    layer: str
    bootstrap: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GidInUse(Fact):
    """The GID that a program says it sends from. index: where the line names it."""

    program: str
    device: str
    index: int | Unknown
    address: IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class GidUnreadable(Fact):
    """A library stopped at a slot of the GID table that it could not read."""

    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDirect(Fact):
    """A library's own word whether it registers GPU memory with the NIC. why: where it gives a reason."""

    device: str
    enabled: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRefused(Fact):
    """A verbs object that could not be made: call, errno words."""

    call: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeRefused(Fact):
    """Two engines found that they cannot work together. field: empty where the log names none; values as printed."""

    field: str
    prefill: str
    decode: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeAccepted(Fact):
    """Two engines found that they fit."""

    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRefused(Fact):
    """KV that came in another shape, type or size than the receiver holds. layer, expected, got: as printed, or empty.

    cause: what the engine itself says of it.
    """

    layer: str
    expected: str
    got: str
    words: str
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaRefused(Fact):
    """A CUDA program that the driver refused. kind: see `parse/cuda_log.py`; words: as printed."""

    kind: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOutOfMemory(Fact):
    """A program that asked a GPU for more memory than was free. asked, free and total as printed; others: what other
    processes held, as printed.
    """

    gpu: str
    asked: str
    free: str
    total: str
    others: tuple[str, ...]
