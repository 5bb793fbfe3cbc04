"""What an RDMA device speaks: Ethernet (then it is RoCE) or InfiniBand (then the RoCE checks have nothing to say)."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.fabric import layer
from pdchecks.facts.log import DevicesInUse
from pdchecks.facts.rdma import Gid, RdmaPort
from pdchecks.finding import Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    quotes = {fact.device: fact.quote for fact in reversed(node.all(RdmaPort))}
    for gid in reversed(node.all(Gid)):
        if (device := known(gid.device)) is not None:
            quotes.setdefault(device, gid.quote)
    for used in node.all(DevicesInUse):
        for device in used.devices:
            quotes.setdefault(device, used.quote)
    for device, quote in quotes.items():
        kind = layer(node, device)
        if isinstance(kind, Unknown):
            continue
        if kind == "Ethernet":
            yield Verdict(Status.PASS, device, "link layer is Ethernet: RoCE", quotes=(quote,))
        else:
            yield Verdict(
                Status.INFO,
                device,
                f"link layer is {kind}: no RoCE check is made on this device",
                "MTU, GID, priority and congestion settings of RoCE mean nothing here; the subnet manager holds them.",
                (quote,),
                (f"cat /sys/class/infiniband/{device}/ports/1/link_layer",),
            )


CHECK = NodeCheck(
    id="PD-LINK-002",
    topic="link.layer",
    title="RDMA device is not Ethernet",
    severity=Severity.LOW,
    tools=("ibstat", "ibv_devinfo", "infiniband", "show_gids", "rdma"),
    sources=("rdma-core libibverbs/examples/devinfo.c", "mlnx-tools show_gids"),
    need=Need.RDMA,
    judge=judge,
)
