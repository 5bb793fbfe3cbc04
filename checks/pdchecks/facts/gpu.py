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
    """One row of --query-compute-apps. used_mib in MiB."""

    gpu: str
    pid: int | Unknown
    name: str | Unknown
    used_mib: int | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuQueryRefused(Fact):
    """nvidia-smi answered a whole query with an error. field: the name that it does not know, if that was it."""

    field: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPresent(Fact):
    """A PCI function of NVIDIA's that is a display or 3D controller, whatever its driver says."""

    addresses: tuple[str, ...]
