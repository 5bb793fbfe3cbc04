"""The path MTU that RoCE really uses, as the verbs library or a perftest run prints it."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.fabric import is_infiniband, netdevs, ports
from pdchecks.facts.perftest import PerftestRun
from pdchecks.facts.rdma import RdmaMtu
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.roce import netdev_mtu_for
from pdchecks.unknown import Unknown, known


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    down = {(port.device, port.port) for port in ports(node) if port.down}
    printed: set[str] = set()
    for fact in node.all(RdmaMtu):
        # A port that is down reads as the smallest MTU.
        if is_infiniband(node, fact.device) or (fact.device, fact.port) in down:
            continue
        printed.add(fact.device)
        name = f"{fact.device}/{fact.port}"
        if isinstance(fact.active, Unknown):
            summary = f"the active MTU could not be read: {fact.active.reason}"
            yield Verdict(Status.UNKNOWN, name, summary, quotes=(fact.quote,))
        else:
            yield _judge(node, policy, fact.device, name, fact.active, known(fact.largest), fact.quote)
    for run in node.all(PerftestRun):
        if (mtu := known(run.mtu)) is not None and run.device not in printed and run.layer != "IB":
            yield _judge(node, policy, run.device, f"{run.device}, {run.tool}", mtu, None, run.quote)


def _judge(
    node: NodeFacts, policy: Policy, device: str, name: str, active: int, largest: int | None, quote: Quote
) -> Verdict:
    wanted, to_set = policy.values.fabric.mtu.roce, policy.values.fabric.mtu.netdev
    if active >= wanted:
        return Verdict(Status.PASS, name, f"active MTU is {active}", quotes=(quote,))
    netdev = next((name for name, of in netdevs(node).items() if of == device), "<netdev>")
    able = f" The device can do {largest}." if largest is not None and largest > active else ""
    return Verdict(
        Status.WARN,
        name,
        f"active MTU is {active}, below the policy's {wanted}",
        f"The MTU of the interface under it is below {netdev_mtu_for(wanted)}, or the program asked for less.{able} "
        "More and smaller packets cost bandwidth; a peer that assumes the larger one fails altogether.",
        (quote,),
        (f"ibv_devinfo -d {device} | grep mtu", f"ip link show dev {netdev}"),
        Remedy(
            f"Set MTU {to_set} on the interface of {device}, on its peer and on the switch ports between them, and "
            "write it into the node's network configuration.",
            commands=(f"ip link set dev {netdev} mtu {to_set}",),
            survives_reboot=False,
            impact=Impact.LINK_FLAP,
        ),
    )


CHECK = NodeCheck(
    id="PD-MTU-002",
    topic="mtu.active",
    title="RoCE path MTU below the policy",
    severity=Severity.MEDIUM,
    tools=("ibv_devinfo",),
    sources=("rdma-core libibverbs/examples/devinfo.c", "linux drivers/infiniband/hw/mlx5/main.c"),
    need=Need.ROCE,
    judge=judge,
)
