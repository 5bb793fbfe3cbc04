"""The notification point: a receiver that sees congestion marks must tell the sender."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.dcqcn import NOTIFICATION, judge_role
from pdchecks.fabric import judged
from pdchecks.facts.firmware import NvParameter
from pdchecks.facts.qos import CnpMark
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# mlxconfig's names, with the port behind them.
_PARAMETERS = {"CNP_DSCP_P": "DSCP", "CNP_802P_PRIO_P": "priority"}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    yield from judge_role(NOTIFICATION, node, policy)
    for mark in node.all(CnpMark):
        if ":" in mark.where or judged(node, mark.where):
            yield _judge_mark(mark, policy)
    for parameter in node.all(NvParameter):
        field = next((field for name, field in _PARAMETERS.items() if parameter.name.startswith(name)), None)
        if field and parameter.next_boot.isdecimal() and len(parameter.next_boot) < 4:
            value = int(parameter.next_boot)
            where = f"{parameter.device} at its next boot"
            yield _judge_mark(CnpMark(quote=parameter.quote, where=where, field=field, value=value), policy)


def _judge_mark(mark: CnpMark, policy: Policy) -> Verdict:
    cnp = policy.values.fabric.cnp
    wanted = cnp.dscp if mark.field == "DSCP" else cnp.priority
    subject = f"{mark.where} CNP {mark.field}"
    if mark.value == wanted:
        summary = f"congestion notifications carry {mark.field} {mark.value}"
        return Verdict(Status.PASS, subject, summary, quotes=(mark.quote,))
    file = "cnp_dscp" if mark.field == "DSCP" else "cnp_802p_prio"
    return Verdict(
        Status.WARN,
        subject,
        f"congestion notifications carry {mark.field} {mark.value}, the policy says {wanted}",
        "Switches and the other end put them into the class of that value: in one that waits behind data, or that drops, "
        "senders learn of congestion too late or never.",
        (mark.quote,),
        (f"cat /sys/class/net/{mark.where}/ecn/roce_np/{file}", "mlxconfig -d <bus address> query | grep CNP_"),
        Remedy(
            "Set what the switches expect, at each boot, or as the card's own default; or name the site's value in the "
            "policy (fabric.cnp).",
            commands=(f"mlxconfig -d <bus address> set CNP_DSCP_P1={cnp.dscp} CNP_802P_PRIO_P1={cnp.priority}",),
            until_reboot=(f"echo {wanted} > /sys/class/net/<netdev>/ecn/roce_np/{file}",),
        ),
    )


CHECK = NodeCheck(
    id="PD-ECN-001",
    topic="ecn.np",
    title="Receiver does not answer congestion marks",
    severity=Severity.HIGH,
    tools=("infiniband", "hw_counters", "rdma", "net"),
    sources=(
        "linux drivers/infiniband/hw/mlx5/{cong,counters}.c",
        "https://docs.nvidia.com/networking/display/mlnxofedv24010331/explicit+congestion+notification+(ecn)",
    ),
    need=Need.ROCE,
    judge=judge,
)
