"""The notification point: a receiver that sees congestion marks must tell the sender."""

from pdchecks.check import Need, NodeCheck
from pdchecks.dcqcn import NOTIFICATION, judge_role
from pdchecks.finding import Severity

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
    need=Need.RDMA,
    judge=judge_role(NOTIFICATION),
)
