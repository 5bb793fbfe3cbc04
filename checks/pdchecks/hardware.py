"""What a node is made of, as far as an inventory names it: the kind of its GPUs and its RDMA ports. Pure."""

from dataclasses import dataclass

from pdchecks.fabric import ports
from pdchecks.facts.gpu import GpuPresent, GpuQueryRefused
from pdchecks.facts.net import PciFunction
from pdchecks.facts.rdma import NoRdmaDevice, RdmaDevice
from pdchecks.firmware import card_of
from pdchecks.gpus import devices
from pdchecks.nodefacts import NodeFacts
from pdchecks.pair.gpus import find_gpu
from pdchecks.policy import Firmware
from pdchecks.unknown import Unknown, known

CPU = "cpu"
# lspci's class of what computes and shows no picture; GPUs of other makers than NVIDIA carry it, or the second one.
_ACCELERATORS = ("Processing accelerators", "Display controller")


@dataclass(frozen=True, slots=True)
class RdmaNic:
    """One RDMA port. card: its family in the policy; None where no tool or no family tells. rate in Gb/s."""

    device: str
    port: int
    netdev: str | None
    card: str | None
    rate_gbps: float | None


@dataclass(frozen=True, slots=True)
class Hardware:
    """gpu_kind: of the GPU table; `cpu` where the node has no GPU. gpu_name: as the driver prints it, empty for a cpu."""

    gpu_kind: str | Unknown
    gpu_name: str
    gpu_count: int
    nics: tuple[RdmaNic, ...] | Unknown


def hardware(node: NodeFacts, firmware: Firmware) -> Hardware:
    names = [name for device in devices(node) if (name := device.known("name"))]
    kind = _kind(list(dict.fromkeys(names))) if names else _without_answer(node)
    return Hardware(kind, names[0] if names else "", len(names), _nics(node, firmware))


def _kind(names: list[str]) -> str | Unknown:
    kinds: dict[str, str] = {}
    for name in names:
        found = find_gpu(name)
        if isinstance(found, Unknown):
            return found
        # Boards that print one name (Orin) are told apart by their family alone.
        kinds.setdefault(found.boards[0].kind if len(found.boards) == 1 else found.boards[0].family, name)
    if len(kinds) > 1:
        return Unknown(f"it has GPUs of several kinds: {', '.join(kinds.values())}")
    return next(iter(kinds))


def _without_answer(node: NodeFacts) -> str | Unknown:
    present = [address for fact in node.all(GpuPresent) for address in fact.addresses]
    refused = node.all(GpuQueryRefused)
    if refused:
        return Unknown(f"nvidia-smi answered nothing: {refused[0].words}")
    if present:
        return Unknown(f"NVIDIA GPUs are on the PCI bus ({len(present)}), and nvidia-smi does not answer: {_why(node)}")
    if others := [fact for fact in node.all(PciFunction) if fact.kind in _ACCELERATORS]:
        return Unknown(f"an accelerator that is not looked into: {others[0].address} {others[0].name}")
    return CPU if node.collected else Unknown("the look at the node is not whole")


def _why(node: NodeFacts) -> str:
    return node.why_unread("nvidia-smi") or "it is not installed"


def _nics(node: NodeFacts, firmware: Firmware) -> tuple[RdmaNic, ...] | Unknown:
    found = tuple(
        RdmaNic(port.device, port.port, known(port.netdev), _card(node, port.device, firmware), known(port.rate_gbps))
        for port in ports(node)
    )
    if found or node.all(NoRdmaDevice):
        return tuple(sorted(found, key=lambda nic: (nic.device, nic.port)))
    return Unknown(node.why_unread("rdma") or "no tool printed the RDMA devices")


def _card(node: NodeFacts, device: str, firmware: Firmware) -> str | None:
    for fact in node.all(RdmaDevice):
        if fact.device == device and isinstance(fact.firmware, str):
            card = card_of(fact.firmware, fact.part, firmware)
            if card:
                return card.family
    return None
