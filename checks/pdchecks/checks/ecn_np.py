"""The notification point: a receiver that sees congestion marks must tell the sender."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.dcqcn import NOTIFICATION, judge_role
from pdchecks.finding import Severity
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    return judge_role(NOTIFICATION, node, policy)


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
