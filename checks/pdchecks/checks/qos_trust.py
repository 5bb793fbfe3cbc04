"""By what a NIC classifies received packets: DSCP, or the VLAN tag's PCP."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.converge import setting
from pdchecks.fabric import judged
from pdchecks.facts.qos import QosTrust
from pdchecks.finding import Impact, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    wanted = policy.values.fabric.trust
    for fact in node.all(QosTrust):
        if not judged(node, fact.netdev):
            continue
        if isinstance(fact.trust, Unknown):
            yield Verdict(
                Status.UNKNOWN,
                fact.netdev,
                f"trust could not be read: {fact.trust.reason}",
                quotes=(fact.quote,),
                verify=("mlnx_qos -i <physical interface>", "dcb app show dev <physical interface>"),
            )
        elif fact.trust in (wanted, "both"):
            yield Verdict(Status.PASS, fact.netdev, f"trust is {fact.trust}", quotes=(fact.quote,))
        else:
            yield _wrong(fact, fact.trust, wanted, policy)


def _wrong(fact: QosTrust, trust: str, wanted: str, policy: Policy) -> Verdict:
    fabric = policy.values.fabric
    why = (
        "Without a VLAN tag there is no PCP: every packet is then priority 0, whatever its DSCP, and PFC of another "
        "priority never applies to it."
        if trust == "pcp"
        else "Packets are not classified as the rest of the fabric does it."
    )
    return Verdict(
        Status.FAIL,
        fact.netdev,
        f"trust is {trust}, the policy says {wanted}",
        f"{why} This is the factory setting." if trust == "pcp" else why,
        (fact.quote,),
        (f"mlnx_qos -i {fact.netdev}", f"dcb app show dev {fact.netdev} dscp-prio"),
        setting(
            "qos",
            "Set the trust state again at each boot and after each reload of the driver: a command alone does not "
            "last.",
            f"mlnx_qos -i {fact.netdev} --trust {wanted}",
            f"dcb app add dev {fact.netdev} dscp-prio {fabric.dscp}:{fabric.lossless_priority}",
            impact=Impact.LINK_FLAP,
        ),
    )


CHECK = NodeCheck(
    id="PD-QOS-001",
    topic="qos.trust",
    title="NIC does not classify by the policy's field",
    severity=Severity.HIGH,
    tools=("mlnx_qos", "dcb"),
    sources=("mlnx-tools python/mlnx_qos", "dcb-app(8)"),
    need=Need.ROCE,
    judge=judge,
)
