"""Network interfaces as the kernel and ethtool show them."""

from collections.abc import Mapping
from dataclasses import dataclass

from pdchecks.facts.base import Fact
from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Netdev(Fact):
    """mtu in bytes. lower: the interface below a VLAN or macvlan, empty for a plain one. master: its bond or bridge.

    medium: `ether`, `infiniband`, `loopback`, ... as the kernel names the link's type, empty where not printed.
    queue: the queueing discipline, kind: the kernel's name for a link made by software; empty where not printed.
    """

    name: str
    mtu: int | Unknown
    up: bool | Unknown
    lower: str
    addresses: tuple[str, ...]
    master: str = ""
    medium: str = ""
    queue: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NicDriver(Fact):
    """What `ethtool -i` says. psid: in brackets after the firmware version."""

    netdev: str
    driver: str | Unknown
    version: str | Unknown
    firmware: str | Unknown
    psid: str | Unknown
    bus: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class NicCounters(Fact):
    """`ethtool -S`, maybe filtered by the one who pasted it: an absent name counts only beside its siblings."""

    netdev: str
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseFrames(Fact):
    """802.3x pause of a link, received and sent."""

    netdev: str
    receive: bool
    send: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring(Fact):
    """A ring of descriptors. way: `rx` or `tx`; largest: what the driver takes at most."""

    netdev: str
    way: str
    size: int
    largest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload(Fact):
    """fixed: this driver, firmware and kernel cannot change it."""

    netdev: str
    feature: str
    on: bool
    fixed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpeed(Fact):
    """supported_mbps: the fastest of the link modes that card and module support together."""

    netdev: str
    speed_mbps: int | Unknown
    supported_mbps: int | Unknown
    detected: bool | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class LldpNeighbour(Fact):
    """The switch and the port of it at the other end of an interface's cable, as LLDP tells."""

    netdev: str
    switch: str
    port: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour(Fact):
    """states: kernel names, e.g. REACHABLE, FAILED."""

    address: str
    netdev: str
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourCount(Fact):
    """How many entries somebody counted in the table."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PciLink(Fact):
    """A PCI function's link: speed in GT/s and lanes, now and at most. kind: lspci's class name, or empty."""

    address: str
    kind: str
    speed: float
    width: int
    max_speed: float
    max_width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PciBandwidth(Fact):
    """The kernel's own word that a slower link stands between a function and the root. Gb/s; at: that link.

    driver: who says it, `pci` where the bus itself does.
    """

    address: str
    driver: str
    available_gbps: float
    capable_gbps: float
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PciFunction(Fact):
    """A function that lspci lists. kind: its class name."""

    address: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PciAcs(Fact):
    """ACSCtl of a function: the names of the bits that are on. address is Unknown where only that line was kept."""

    address: str | Unknown
    kind: str
    on: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PciOrdering(Fact):
    """Whether a function may order its writes relaxed (DevCtl RlxdOrd)."""

    address: str
    kind: str
    relaxed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Fact):
    """The kernel's answer to `ip route get`. asked: the interface or source that the question named; empty for none.

    netdev: the interface that packets leave by; Unknown with the kernel's words where there is no way.
    """

    destination: str
    source: str
    asked: str
    via: str
    netdev: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteEntry(Fact):
    """A line of the main routing table. destination: `default` or a prefix; via: the gateway, empty on the link.

    source: the address that the kernel prefers, metric as printed; both empty where not printed.
    """

    destination: str
    via: str
    netdev: str
    source: str
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathProbe(Fact):
    """A ping that may not be broken up. size: the whole IP packet in bytes; mtu: what stood in its way.

    here: it did not even leave this node. netdev: empty where the command names none.
    """

    netdev: str
    peer: str
    size: int
    passed: bool
    here: bool
    mtu: int | Unknown
