"""RDMA devices, ports, GIDs and counters."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from pdchecks.facts.base import Fact
from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaDevice(Fact):
    """part: the PCI device id as a number (4129 is ConnectX-7). psid: the firmware's parameter-set id."""

    device: str
    firmware: str | Unknown
    part: int | Unknown
    psid: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaPort(Fact):
    """state and physical in the words of rdma(8): ACTIVE, DOWN, ...; LINK_UP, DISABLED, ...

    layer: Ethernet or InfiniBand.
    """

    device: str
    port: int
    state: str | Unknown
    physical: str | Unknown
    layer: str | Unknown
    rate_gbps: float | Unknown
    lid: int | Unknown
    netdev: str | Unknown

    @property
    def name(self) -> str:
        return f"{self.device}/{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaMtu(Fact):
    """Path MTUs of one port in bytes: in use, and the largest that the device can."""

    device: str
    port: int
    active: int | Unknown
    largest: int | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Gid(Fact):
    """One entry of a port's GID table. version: 1 or 2 (RoCE). device is Unknown where only a table's tail was kept."""

    device: str | Unknown
    port: int
    index: int
    address: IPv6Address
    version: int | Unknown
    netdev: str | Unknown

    @property
    def ipv4(self) -> IPv4Address | None:
        return self.address.ipv4_mapped

    @property
    def link_local(self) -> bool:
        return self.address.is_link_local


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyGid(Fact):
    """A slot of the table that holds no GID (zero address, or a read that gives EINVAL)."""

    device: str
    port: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaCounters(Fact):
    """Counters since the port came up. What a device does not have is absent, which is not zero."""

    device: str
    port: int
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRdmaDevice(Fact):
    """The kernel lists no RDMA device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMemory(Fact):
    """A client of the kernel's peer memory interface is registered: GPU memory can be given to the NIC."""

    client: str
