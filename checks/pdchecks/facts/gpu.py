"""GPUs as nvidia-smi shows them."""

from collections.abc import Mapping
from dataclasses import dataclass

from pdchecks.facts.base import Fact
from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(Fact):
    """One row of --query-gpu. fields: by the field's name without its unit, as printed or Unknown."""

    label: str
    fields: Mapping[str, str | Unknown]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess(Fact):
    """One process on one GPU. used_mib in MiB. kind: C compute, G graphics, M under MPS, as the table of nvidia-smi says."""

    gpu: str
    pid: int | Unknown
    name: str | Unknown
    used_mib: int | Unknown
    kind: str = "C"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuQueryRefused(Fact):
    """nvidia-smi answered a whole query with an error. field: the name that it does not know, if that was it.

    what: the kind of query, `gpu` or `compute-apps`; empty where the command does not say.
    """

    field: str
    words: str
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPresent(Fact):
    """A PCI function of NVIDIA's that is a display or 3D controller, whatever its driver says."""

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleDevices(Fact):
    """CUDA_VISIBLE_DEVICES of a running process: indices or UUIDs; empty where it is not set."""

    pid: int
    devices: tuple[str, ...]
