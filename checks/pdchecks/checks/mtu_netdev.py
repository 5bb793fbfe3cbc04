"""Interfaces whose MTU is too small for the RoCE path MTU of the policy."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.converge import setting
from pdchecks.evidence import words
from pdchecks.fabric import carries_rdma, is_hardware, netdevs, ports
from pdchecks.facts.net import Netdev
from pdchecks.facts.rdma import NoRdmaDevice
from pdchecks.finding import Impact, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.roce import HEADER_BYTES, netdev_mtu_for, path_mtu
from pdchecks.unknown import known

_STANDARD_MTU = 1500


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    wanted, to_set = policy.values.fabric.mtu.roce, policy.values.fabric.mtu.netdev
    for netdev in node.all(Netdev):
        mtu = known(netdev.mtu)
        if mtu is None:
            continue
        path, name = path_mtu(mtu), netdev.name
        concerns = _concerns_roce(node, netdev, mtu, wanted)
        if concerns is None and path < wanted:
            yield Verdict(
                Status.UNKNOWN,
                name,
                f"not known whether this interface carries RoCE; its MTU {mtu} would give it a path MTU of {path}",
                "No tool was shown that joins interfaces to RDMA devices.",
                (netdev.quote,),
                ("rdma link show", "ibdev2netdev"),
            )
            continue
        if concerns is False:
            continue
        if path >= wanted:
            yield Verdict(Status.PASS, name, f"MTU {mtu} gives RoCE path MTU {path}", quotes=(netdev.quote,))
            continue
        yield Verdict(
            Status.WARN,
            name,
            f"MTU {mtu} gives RoCE only a path MTU of {path}; {wanted} needs at least {netdev_mtu_for(wanted)}",
            f"RoCE takes the largest path MTU that fits into the interface's MTU less {HEADER_BYTES} bytes of "
            f"headers: {mtu} - {HEADER_BYTES} = {mtu - HEADER_BYTES}.",
            (netdev.quote,),
            (
                f"ip link show dev {name}",
                "ibv_devinfo | grep active_mtu",
                f"ping -M do -s {to_set - 28} <peer> -I {name}",
            ),
            setting(
                "mtu",
                f"Set MTU {to_set} on this interface, on the interfaces below it, on the peer and on the switch "
                "ports, and write it into the node's network configuration.",
                f"ip link set dev {name} mtu {to_set}",
                impact=Impact.LINK_FLAP,
            ),
        )


def _concerns_roce(node: NodeFacts, netdev: Netdev, mtu: int, wanted: int) -> bool | None:
    """None: a card's port that somebody asked for by name, of which nothing tells whether it carries RoCE.

    With no tool that joins interfaces to devices one sign is left: an MTU set to the number of a RoCE path MTU.
    """
    carries = carries_rdma(node, netdev.name)
    if carries is not None:
        return carries and netdev.up is not False
    only_infiniband = ports(node) and all(port.layer == "InfiniBand" for port in ports(node))
    if netdevs(node) or only_infiniband or node.all(NoRdmaDevice) or not is_hardware(node, netdev.name):
        return False
    if _STANDARD_MTU < mtu <= wanted and mtu.bit_count() == 1:
        return True
    return None if netdev.name in words(netdev.quote.command) else False


CHECK = NodeCheck(
    id="PD-MTU-001",
    topic="mtu.netdev",
    title="Interface MTU too small for the RoCE path MTU",
    severity=Severity.MEDIUM,
    tools=("ip", "ifconfig"),
    sources=("linux include/rdma/ib_addr.h, iboe_get_mtu()", "https://github.com/kvcache-ai/Mooncake/issues/1143"),
    need=Need.ROCE,
    judge=judge,
)
