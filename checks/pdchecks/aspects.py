"""What of a node can change, kind by kind: how it reads from facts, and which faults such a change brings about.

The order is that of suspicion: what most often breaks a pair that worked stands first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pdchecks.evidence import Quote
from pdchecks.facts.deployment import Deployed, EngineCommand
from pdchecks.facts.firmware import FirmwareImages, NvParameter
from pdchecks.facts.gpu import Gpu
from pdchecks.facts.host import (
    Environment,
    Kernel,
    Limit,
    LoadedModules,
    LocaleSetting,
    ModuleOption,
    OsRelease,
    Package,
    Sysctl,
    Unit,
)
from pdchecks.facts.net import LinkSpeed, Netdev, NicDriver, PauseFrames, PciLink, Ring, Route, RouteEntry
from pdchecks.facts.qos import CnpMark, CongestionControl, QosDcbx, QosDscpMap, QosPfc, QosTrust, RoceTrafficClass
from pdchecks.facts.rdma import Gid, RdmaDevice, RdmaMtu, RdmaPort
from pdchecks.nodefacts import NodeFacts
from pdchecks.unknown import Unknown

Value = tuple[str, object, Quote]
"""Object, value (an Unknown is left out of every comparison), the words that say so."""


@dataclass(frozen=True, slots=True)
class Aspect:
    """kind: as people call it. checks: beginnings of the IDs of the checks that see what such a change breaks."""

    kind: str
    checks: tuple[str, ...]
    values: Callable[[NodeFacts], Iterator[Value]]


def _firmware(node: NodeFacts) -> Iterator[Value]:
    for device in node.all(RdmaDevice):
        yield device.device, device.firmware, device.quote
    for driver in node.all(NicDriver):
        yield driver.netdev, driver.firmware, driver.quote
    for images in node.all(FirmwareImages):
        yield f"{images.device} stored", images.stored, images.quote


def _driver(node: NodeFacts) -> Iterator[Value]:
    for nic in node.all(NicDriver):
        known = [part for part in (nic.driver, nic.version) if not isinstance(part, Unknown)]
        yield nic.netdev, " ".join(known) or Unknown("not printed"), nic.quote
    for gpu in node.all(Gpu):
        if "driver_version" in gpu.fields:
            yield "NVIDIA driver", gpu.fields["driver_version"], gpu.quote


def _kernel(node: NodeFacts) -> Iterator[Value]:
    for kernel in node.all(Kernel):
        yield "kernel", kernel.release, kernel.quote
    for system in node.all(OsRelease):
        yield "distribution", f"{system.id} {system.version}".strip(), system.quote


def _mtu(node: NodeFacts) -> Iterator[Value]:
    for netdev in node.all(Netdev):
        yield netdev.name, netdev.mtu, netdev.quote
    for mtu in node.all(RdmaMtu):
        yield f"{mtu.device}/{mtu.port} active", mtu.active, mtu.quote


def _link(node: NodeFacts) -> Iterator[Value]:
    for port in node.all(RdmaPort):
        yield f"{port.name} state", port.state, port.quote
        yield f"{port.name} rate", port.rate_gbps, port.quote
    for netdev in node.all(Netdev):
        yield f"{netdev.name} up", netdev.up, netdev.quote
    for link in node.all(LinkSpeed):
        yield f"{link.netdev} speed", link.speed_mbps, link.quote


def _gid(node: NodeFacts) -> Iterator[Value]:
    for gid in node.all(Gid):
        if not isinstance(gid.device, Unknown):
            kind = f"RoCE v{gid.version}" if not isinstance(gid.version, Unknown) else "RoCE"
            yield f"{gid.device}/{gid.port} index {gid.index}", f"{gid.ipv4 or gid.address} {kind}", gid.quote


def _route(node: NodeFacts) -> Iterator[Value]:
    for entry in node.all(RouteEntry):
        parts = (entry.netdev, entry.via and f"via {entry.via}", entry.source and f"src {entry.source}")
        name = entry.destination + (f" metric {entry.metric}" if entry.metric else "")
        yield name, " ".join(part for part in parts if part), entry.quote
    for route in node.all(Route):
        answer = route.netdev if isinstance(route.netdev, Unknown) else f"{route.netdev} {route.via}".strip()
        yield f"to {route.destination} {route.asked}".strip(), answer, route.quote


def _address(node: NodeFacts) -> Iterator[Value]:
    for netdev in node.all(Netdev):
        yield netdev.name, " ".join(sorted(netdev.addresses)) or "none", netdev.quote


def _qos(node: NodeFacts) -> Iterator[Value]:
    for trust in node.all(QosTrust):
        yield f"{trust.netdev} trust", trust.trust, trust.quote
    for pfc in node.all(QosPfc):
        on = pfc.enabled if isinstance(pfc.enabled, Unknown) else ",".join(map(str, sorted(pfc.enabled))) or "none"
        yield f"{pfc.netdev} PFC", on, pfc.quote
    for dscp in node.all(QosDscpMap):
        for number, priority in dscp.priority.items():
            yield f"{dscp.netdev} DSCP {number}", f"priority {priority}", dscp.quote
    for dcbx in node.all(QosDcbx):
        yield f"{dcbx.netdev} DCBX", dcbx.owner, dcbx.quote
    for control in node.all(CongestionControl):
        on = ",".join(str(priority) for priority, enabled in sorted(control.enabled.items()) if enabled)
        yield f"{control.netdev} roce_{control.role}", on or "none", control.quote
    for mark in node.all(CnpMark):
        yield f"{mark.where} CNP {mark.field}", mark.value, mark.quote
    for pause in node.all(PauseFrames):
        yield f"{pause.netdev} pause", f"rx {pause.receive} tx {pause.send}", pause.quote
    for tos in node.all(RoceTrafficClass):
        yield f"{tos.device} traffic class", tos.traffic_class, tos.quote


def _option(node: NodeFacts) -> Iterator[Value]:
    for option in node.all(ModuleOption):
        yield f"{option.module} {option.name}", option.value, option.quote
    for parameter in node.all(NvParameter):
        yield f"{parameter.device} {parameter.name}", parameter.now, parameter.quote
        yield f"{parameter.device} {parameter.name} at next boot", parameter.next_boot, parameter.quote


def _module(node: NodeFacts) -> Iterator[Value]:
    for modules in node.all(LoadedModules):
        # Of a list that went through `grep` nobody knows what it left out.
        for name in modules.names if modules.filter is None else ():
            if name.startswith(("mlx", "ib_", "rdma", "nvidia", "irdma", "bnxt", "iw_")):
                yield name, "loaded", modules.quote


def _setting(node: NodeFacts) -> Iterator[Value]:
    for setting in node.all(Sysctl):
        yield setting.key, setting.value, setting.quote
    for ring in node.all(Ring):
        yield f"{ring.netdev} {ring.way} ring", ring.size, ring.quote
    for limit in node.all(Limit):
        # A process has another number after each start.
        if not limit.scope.startswith("process "):
            yield f"{limit.name} of {limit.scope}", _amount(limit.soft), limit.quote


def _amount(value: int | None) -> str:
    return "unlimited" if value is None else str(value)


def _package(node: NodeFacts) -> Iterator[Value]:
    for package in node.all(Package):
        yield package.name, package.version, package.quote


def _model(node: NodeFacts) -> Iterator[Value]:
    for deployed in node.all(Deployed):
        yield deployed.deployment, deployed.model, deployed.quote


def _flag(node: NodeFacts) -> Iterator[Value]:
    for deployed in node.all(Deployed):
        for name, value in deployed.settings.items():
            yield f"{deployed.deployment} {name}", value, deployed.quote
    for command in node.all(EngineCommand):
        for name, value in command.flags.items():
            yield f"{command.unit} --{name}", value, command.quote
    for environment in node.all(Environment):
        for name, value in environment.values.items():
            if name.startswith(("NCCL_", "UCX_", "MC_", "CUDA_", "VLLM_", "NVSHMEM_", "NIXL_")):
                yield name, value, environment.quote


def _gpu(node: NodeFacts) -> Iterator[Value]:
    for gpu in node.all(Gpu):
        for name in ("compute_mode", "persistence_mode", "mig.mode.current", "ecc.mode.current"):
            if name in gpu.fields:
                yield f"{gpu.label} {name}", gpu.fields[name], gpu.quote


def _pci(node: NodeFacts) -> Iterator[Value]:
    for link in node.all(PciLink):
        yield link.address, f"{link.speed:g} GT/s x{link.width}", link.quote


def _unit(node: NodeFacts) -> Iterator[Value]:
    for unit in node.all(Unit):
        yield unit.name, " ".join(part for part in (unit.load, unit.active, unit.enabled) if part), unit.quote


def _locale(node: NodeFacts) -> Iterator[Value]:
    for setting in node.all(LocaleSetting):
        for name, value in setting.values.items():
            yield name, value, setting.quote


ASPECTS: tuple[Aspect, ...] = (
    Aspect("link", ("PD-LINK", "PD-RDMA", "PD-PERF", "PD-GID"), _link),
    Aspect("MTU", ("PD-MTU", "PD-RDMA-002"), _mtu),
    Aspect("GID", ("PD-GID", "PD-RDMA-001", "PD-RDMA-002"), _gid),
    Aspect("QoS", ("PD-QOS", "PD-ECN", "PD-FLOW", "PD-RDMA-003"), _qos),
    Aspect("firmware", ("PD-FW", "PD-DRV", "PD-MLX", "PD-LINK"), _firmware),
    Aspect("driver", ("PD-DRV", "PD-FW", "PD-GPU", "PD-GDR", "PD-MLX"), _driver),
    Aspect("kernel", ("PD-DRV", "PD-FW-003", "PD-GPU-007", "PD-GDR", "PD-SVC-001"), _kernel),
    Aspect("route", ("PD-ROUTE", "PD-RDMA-001"), _route),
    Aspect("address", ("PD-GID", "PD-ROUTE"), _address),
    Aspect("option", ("PD-DRV", "PD-FW-002", "PD-ECN", "PD-PCIE", "PD-MLX"), _option),
    Aspect("model", ("PD-KV", "PD-SVC-003"), _model),
    Aspect("flag", ("PD-KV", "PD-GID-001", "PD-OFF-001", "PD-GPU-003", "PD-SVC"), _flag),
    Aspect("setting", ("PD-SYSCTL", "PD-LIMIT", "PD-NEIGH", "PD-ARP", "PD-ROUTE-002"), _setting),
    Aspect("module", ("PD-SVC-001", "PD-OFF-001", "PD-GDR-001"), _module),
    Aspect("unit", ("PD-SVC", "PD-GPU-008"), _unit),
    Aspect("GPU mode", ("PD-GPU",), _gpu),
    Aspect("PCIe link", ("PD-PCIE", "PD-PERF"), _pci),
    Aspect("package", ("PD-GDR", "PD-OFF", "PD-SVC"), _package),
    Aspect("locale", ("PD-LOCALE", "PD-YUM"), _locale),
)
