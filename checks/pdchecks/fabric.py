"""What the facts of a node say together about its fabric: its ports, and which interface belongs to which device."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pdchecks.evidence import Quote
from pdchecks.facts.log import DevicesInUse
from pdchecks.facts.net import LldpNeighbour, Netdev, NicDriver
from pdchecks.facts.rdma import Gid, NoRdmaDevice, RdmaPort
from pdchecks.nodefacts import NodeFacts
from pdchecks.unknown import Unknown, known

T = TypeVar("T")

# Network drivers with an RDMA driver beside them (linux drivers/infiniband/hw and their Kconfig dependencies).
RDMA_DRIVERS = frozenset(
    {"mlx5_core", "mlx4_en", "mlx4_core", "bnxt_en", "ice", "i40e", "idpf", "qede", "cxgb4", "hns3", "ionic", "mana"}
    | {"efa", "erdma", "enic"}
)
# A port of a switch inside the card, seen by the host: mlx5 en_rep.c, sfc ef100_rep.c.
REPRESENTOR_DRIVERS = frozenset({"mlx5e_rep", "efx_ef100_rep"})
# rdma-core's and udev's persistent names share the PCI part: rocep5s0f0 and enp5s0f0 (with np0 behind it for a port).
_NAMED_BY_PCI = re.compile(r"(?:roce|ib|en|iw)(?P<path>(?:P\d{1,5})?p\d{1,3}s\d{1,3}(?:f\d{1,3})?)(?:np\d{1,2})?")

# systemd.net-naming-scheme(7), Ethernet; the kernel's own order.
_NAMED_AS_HARDWARE = re.compile(r"en(?:o|s|P?\d{0,5}p|x)\w{1,20}|eth\d{1,3}")
# rtnetlink's kinds that stand on hardware ports and may carry what those carry.
_CARRYING_KINDS = frozenset({"bond", "vlan", "macvlan", "macvtap", "ipvlan", "team", "macsec"})


@dataclass(frozen=True, slots=True)
class Port:
    """One RDMA port as all tools together describe it. state: the worse one where two tools disagree."""

    device: str
    port: int
    state: str | Unknown
    physical: str | Unknown
    layer: str | Unknown
    rate_gbps: float | Unknown
    lid: int | Unknown
    netdev: str | Unknown
    quotes: tuple[Quote, ...]

    @property
    def name(self) -> str:
        return f"{self.device}/{self.port}"

    @property
    def active(self) -> bool:
        return self.state == "ACTIVE"

    @property
    def down(self) -> bool:
        """Known not to be active, which is more than not known to be."""
        return not self.active and not isinstance(self.state, Unknown)


def ports(node: NodeFacts) -> tuple[Port, ...]:
    """Every port of which some tool printed the state, in the order of the evidence."""
    return node.derived(_ports)


def _ports(node: NodeFacts) -> tuple[Port, ...]:
    grouped: dict[tuple[str, int], list[RdmaPort]] = {}
    for fact in node.all(RdmaPort):
        grouped.setdefault((fact.device, fact.port), []).append(fact)
    netdev_of = {device: netdev for netdev, device in netdevs(node).items()}
    found: list[Port] = []
    for (device, number), facts in grouped.items():
        states = [fact.state for fact in facts]
        state = next((state for state in states if known(state) not in (None, "ACTIVE")), _first(states))
        # Both words of one tool belong together: another may have been asked at another time.
        telling = sorted(facts, key=lambda fact: fact.state != state)
        netdev = _first(fact.netdev for fact in facts)
        found.append(
            Port(
                device,
                number,
                state,
                _first(fact.physical for fact in telling),
                layer(node, device),
                _first(fact.rate_gbps for fact in facts),
                _first(fact.lid for fact in facts),
                netdev_of.get(device, netdev) if isinstance(netdev, Unknown) else netdev,
                tuple(dict.fromkeys(fact.quote for fact in facts)),
            )
        )
    return tuple(found)


def _first(values: Iterable[T | Unknown]) -> T | Unknown:
    """The first that is known, else the last reason."""
    why: Unknown = Unknown("nothing was printed")
    for value in values:
        if not isinstance(value, Unknown):
            return value
        why = value
    return why


def layer(node: NodeFacts, device: str) -> str | Unknown:
    """Ethernet or InfiniBand. A GID table of one v1 link-local entry without an interface is InfiniBand's."""
    printed = _first(fact.layer for fact in node.all(RdmaPort) if fact.device == device)
    if not isinstance(printed, Unknown):
        return printed
    if any(of == device and medium(node, netdev) == "infiniband" for netdev, of in netdevs(node).items()):
        return "InfiniBand"
    gids = [gid for gid in node.all(Gid) if gid.device == device]
    if any(gid.version == 2 or gid.ipv4 or known(gid.netdev) for gid in gids):
        return "Ethernet"
    if gids and all(gid.version == 1 and gid.index == 0 for gid in gids):
        return "InfiniBand"
    used = next((fact.layer for fact in node.all(DevicesInUse) if device in fact.devices and fact.layer), "")
    return {"RoCE": "Ethernet", "IB": "InfiniBand"}.get(used, Unknown("no tool printed the link layer"))


def is_infiniband(node: NodeFacts, device: str | Unknown) -> bool:
    return not isinstance(device, Unknown) and layer(node, device) == "InfiniBand"


def netdevs(node: NodeFacts) -> Mapping[str, str]:
    """The RDMA device by network interface, as tools print it or persistent names tell it."""
    return node.derived(_netdevs)


def _netdevs(node: NodeFacts) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for port in node.all(RdmaPort):
        if (netdev := known(port.netdev)) is not None:
            found.setdefault(netdev, port.device)
    for gid in node.all(Gid):
        netdev, device = known(gid.netdev), known(gid.device)
        if netdev is not None and device is not None:
            found.setdefault(netdev, device)
    by_path = {path: port.device for port in node.all(RdmaPort) if (path := _pci_path(port.device))}
    for name in _interfaces(node):
        if (path := _pci_path(name)) in by_path:
            found.setdefault(name, by_path[path])
    return found


def _pci_path(name: str) -> str | None:
    match = _NAMED_BY_PCI.fullmatch(name)
    return match["path"] if match else None


def _interfaces(node: NodeFacts) -> Iterator[str]:
    yield from (fact.name for fact in node.all(Netdev))
    yield from (fact.netdev for fact in node.all(NicDriver))


def carries_rdma(node: NodeFacts, netdev: str) -> bool | None:
    """Whether RoCE traffic uses that interface; None where the evidence cannot tell."""
    belongs = netdevs(node)
    if medium(node, netdev) == "infiniband":
        return False
    if netdev in belongs:
        return not is_infiniband(node, belongs[netdev])
    for fact in node.all(Netdev):
        if (fact.name == netdev and fact.master in belongs) or (fact.lower == netdev and fact.name in belongs):
            return True
    driver = known(driver_of(node, netdev))
    if driver is not None and driver not in RDMA_DRIVERS:
        return False
    if medium(node, netdev) not in ("", "ether") or made_by_software(node, netdev):
        return False
    return False if belongs and node.collected else None


def medium(node: NodeFacts, netdev: str) -> str:
    """The type of an interface's link, `ether` or another; empty where nothing prints it."""
    return next((fact.medium for fact in node.all(Netdev) if fact.name == netdev and fact.medium), "")


def made_by_software(node: NodeFacts, netdev: str) -> bool:
    """A tunnel, a bridge, a pair of virtual ends. Bonds and VLANs are not meant: RoCE runs over those.

    The kernel gives a link without hardware no queue (IFF_NO_QUEUE), bonds and what stands on another interface too.
    """
    shown = [fact for fact in node.all(Netdev) if fact.name == netdev]
    if any(fact.kind for fact in shown):
        return not any(fact.kind in _CARRYING_KINDS for fact in shown)
    return any(fact.queue == "noqueue" and not fact.lower and "MASTER" not in fact.quote.text for fact in shown)


def has_no_rails(node: NodeFacts) -> bool:
    """Known to have no RDMA device and no more than one interface to other hosts: what rails need is not needed."""
    names = {fact.name for fact in node.all(Netdev) if fact.name != "lo" and fact.up is not False}
    reaching = [name for name in names if not made_by_software(node, name)]
    return bool(node.all(NoRdmaDevice)) and bool(node.all(Netdev)) and len(reaching) < 2


NO_RAILS = "which only hosts with several rails need: this one has no RDMA device and one network interface"


def is_hardware(node: NodeFacts, netdev: str) -> bool:
    """Whether the evidence shows an Ethernet port of a card: by its driver, its queues or its persistent name."""
    if carries_rdma(node, netdev) is False or any(f.kind or f.lower for f in node.all(Netdev) if f.name == netdev):
        return False
    if known(driver_of(node, netdev)) in RDMA_DRIVERS or _NAMED_AS_HARDWARE.fullmatch(netdev):
        return True
    return any(fact.queue == "mq" for fact in node.all(Netdev) if fact.name == netdev)


def driver_of(node: NodeFacts, netdev: str) -> str | Unknown:
    return _first(fact.driver for fact in node.all(NicDriver) if fact.netdev == netdev)


def port_of(node: NodeFacts, netdev: str) -> Port | None:
    """The RDMA port that belongs to an interface."""
    device = netdevs(node).get(netdev)
    return next((p for p in ports(node) if netdev in (p.netdev,) or (p.device == device and device)), None)


def judged(node: NodeFacts, netdev: str) -> bool:
    """Whether an interface's settings matter to RoCE: it is no foreign one, and its port is not known to be down."""
    port = port_of(node, netdev)
    return carries_rdma(node, netdev) is not False and (port is None or not port.down or port.state == "ACTIVE_DEFER")


def far_end(node: NodeFacts, subject: str) -> LldpNeighbour | None:
    """The switch port at the other end of the cable of the interface, or of the RDMA port, that a finding is about."""
    neighbours = node.derived(_neighbours)
    if not neighbours:
        return None
    named = subject.partition(" ")[0].rstrip(":,")
    if named in neighbours:
        return neighbours[named]
    device = named.partition("/")[0]
    return next(
        (neighbours[netdev] for netdev, of in netdevs(node).items() if of == device and netdev in neighbours), None
    )


def _neighbours(node: NodeFacts) -> Mapping[str, LldpNeighbour]:
    return {fact.netdev: fact for fact in node.all(LldpNeighbour)}
