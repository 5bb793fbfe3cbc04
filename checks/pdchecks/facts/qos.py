"""Traffic classes of an interface: trust, DSCP map, PFC, buffers, DCBX."""

from collections.abc import Mapping
from dataclasses import dataclass

from pdchecks.facts.base import Fact
from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class QosTrust(Fact):
    """trust: `dscp` or `pcp`."""

    netdev: str
    trust: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class QosDscpMap(Fact):
    """priority by DSCP; a DSCP that the tool did not print is absent."""

    netdev: str
    priority: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QosPfc(Fact):
    """enabled: the priorities with PFC on."""

    netdev: str
    enabled: frozenset[int] | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class QosBuffer(Fact):
    """sizes in bytes by buffer; buffer_of: by priority (empty where the tool does not say); cable in metres."""

    netdev: str
    sizes: tuple[int, ...]
    buffer_of: tuple[int, ...]
    cable_m: int | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class QosDcbx(Fact):
    """owner: `os` or `firmware`."""

    netdev: str
    owner: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class LldpadRuns(Fact):
    """lldpad runs beside the tool that was used, and may overwrite what it sets."""

    netdev: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionControl(Fact):
    """One DCQCN role of an interface. role: `np` (receiver) or `rp` (sender); enabled: by priority."""

    netdev: str
    role: str
    enabled: Mapping[int, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class QosAtBoot(Fact):
    """Files of services, udev rules and scripts that speak of a tool that sets QoS; empty: searched, and none does."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CnpMark(Fact):
    """How a receiver marks its congestion notifications. field: `DSCP` or `priority`; where: interface or PCI address."""

    where: str
    field: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoceTrafficClass(Fact):
    """The traffic class that a device gives to RoCE packets: eight bits, DSCP above two bits of ECN."""

    device: str
    traffic_class: int
