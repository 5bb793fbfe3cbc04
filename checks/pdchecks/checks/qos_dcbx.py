"""Who may change the QoS settings after the link is up: the switch through DCBX, or an lldpad that runs beside."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.fabric import judged
from pdchecks.facts.qos import LldpadRuns, QosDcbx
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    wanted = policy.values.fabric.dcbx
    for fact in node.all(LldpadRuns):
        if judged(node, fact.netdev):
            yield _lldpad(fact)
    for owner in node.all(QosDcbx):
        if not judged(node, owner.netdev) or isinstance(owner.owner, Unknown):
            continue
        if owner.owner == wanted:
            yield Verdict(Status.PASS, owner.netdev, f"DCBX is {owner.owner}-controlled", quotes=(owner.quote,))
            continue
        yield Verdict(
            Status.INFO,
            owner.netdev,
            f"DCBX is {owner.owner}-controlled, the policy says {wanted}",
            "The switch may overwrite priorities and PFC after each link-up, over what this host sets. That is right "
            "where the switch is the place that defines them."
            if owner.owner == "firmware"
            else "The host sets priorities and PFC; the policy expects the switch to do so through DCBX.",
            (owner.quote,),
            (f"mlnx_qos -i {owner.netdev}", f"dcb dcbx show dev {owner.netdev}"),
            Remedy(
                "If this host is to own the settings, take them from the firmware; the second command outlasts a "
                "reboot and needs a firmware reset.",
                commands=(
                    f"mlnx_qos -i {owner.netdev} -d os",
                    "mlxconfig -d <bus address> set LLDP_NB_DCBX_P1=0 LLDP_NB_RX_MODE_P1=0 LLDP_NB_TX_MODE_P1=0",
                ),
                impact=Impact.REBOOT,
            )
            if wanted == "os"
            else None,
        )


def _lldpad(fact: LldpadRuns) -> Verdict:
    return Verdict(
        Status.WARN,
        fact.netdev,
        "lldpad runs and may overwrite trust, priorities and PFC of this interface",
        "Two programs set the same thing: the one that comes last wins, at a time that nobody chose.",
        (fact.quote,),
        ("systemctl status lldpad",),
        Remedy("Stop lldpad on RoCE nodes.", commands=("systemctl disable --now lldpad.service lldpad.socket",)),
    )


CHECK = NodeCheck(
    id="PD-QOS-006",
    topic="qos.dcbx",
    title="Something else may overwrite the QoS settings",
    severity=Severity.MEDIUM,
    tools=("mlnx_qos", "dcb"),
    sources=("mlnx-tools python/mlnx_qos", "dcb-dcbx(8)"),
    need=Need.ROCE,
    judge=judge,
)
