"""What an interface is: a card's own function, a virtual one, a representor of a switch port, a bond, or software."""

import re
from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.fabric import RDMA_DRIVERS, REPRESENTOR_DRIVERS
from pdchecks.facts.net import NicDriver, PciFunction
from pdchecks.facts.rdma import RdmaDevice
from pdchecks.finding import Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known

# Virtual functions in linux mlx5_core_pci_table.
_VIRTUAL_PARTS = {0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E, 0xA2D3}
# What ethtool -i prints for interfaces that the kernel or a hypervisor makes.
_NO_CARD = {"veth", "bonding", "bridge", "macvlan", "ipvlan", "tun", "dummy", "team", "openvswitch", "vxlan"}
_NO_CARD |= {"802.1Q VLAN Support", "virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront"}
_SOFTWARE = re.compile(r"(?:rxe|siw)_?\w*")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    virtual = {function.address for function in node.all(PciFunction) if "Virtual Function" in function.name}
    for fact in node.all(NicDriver):
        driver, bus = known(fact.driver), known(fact.bus)
        if driver in REPRESENTOR_DRIVERS:
            yield Verdict(
                Status.INFO,
                fact.netdev,
                f"a representor ({driver}): a port of the switch inside the card at {bus or 'an unnamed address'}, no "
                "card",
                "It shares the card's bus address and firmware; priorities, PFC and MTU of the wire belong to the "
                "physical function, and it is not counted as a NIC.",
                (fact.quote,),
                (f"ethtool -i {fact.netdev}", "devlink port show"),
            )
        elif driver in _NO_CARD:
            yield Verdict(
                Status.INFO,
                fact.netdev,
                f"a virtual interface ({driver}), no card",
                "It has no firmware, no PFC and no RDMA of its own: ask the physical interface below it.",
                (fact.quote,),
                (f"ip -d link show dev {fact.netdev}",),
            )
        elif bus in virtual:
            yield Verdict(
                Status.INFO,
                fact.netdev,
                f"a virtual function ({driver}) at {bus}",
                "Trust, PFC and buffers are set on its physical function; trust is taken over when the function is "
                "made.",
                (fact.quote,),
                (f"readlink /sys/class/net/{fact.netdev}/device/physfn",),
            )
        elif driver in RDMA_DRIVERS:
            where = f" at {bus}" if bus else ""
            yield Verdict(
                Status.PASS, fact.netdev, f"a function of a card, driver {driver}{where}", quotes=(fact.quote,)
            )
    for name, device in {fact.device: fact for fact in node.all(RdmaDevice)}.items():
        kind = _kind(name, device)
        if kind:
            yield Verdict(Status.INFO, name, kind[0], kind[1], (device.quote,), (f"rdma link show {name}/1",))


def _kind(name: str, device: RdmaDevice) -> tuple[str, str] | None:
    if _SOFTWARE.fullmatch(name):
        return "RDMA in software, without a card behind it", "The CPU does the transport: fit for trying things only."
    if "bond" in name:
        return (
            "a bond of two ports as one RDMA device",
            "MTU and addresses belong to the bond; PFC belongs to its members.",
        )
    if not isinstance(device.part, Unknown) and device.part in _VIRTUAL_PARTS:
        return "a virtual function", "Trust, PFC and buffers are set on its physical function."
    return None


CHECK = NodeCheck(
    id="PD-NIC-001",
    topic="nic.kind",
    title="Interface that is no card's own",
    severity=Severity.LOW,
    tools=("ethtool", "ibv_devinfo", "lspci"),
    sources=("linux drivers/net/ethernet/mellanox/mlx5/core/{main,en_rep}.c",),
    need=Need.RDMA,
    judge=judge,
)
