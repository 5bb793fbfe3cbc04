"""QoS that was set by hand: mlnx_qos and dcb write into the driver, and a reboot forgets it."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.converge import converge
from pdchecks.evidence import Quote
from pdchecks.fabric import judged
from pdchecks.facts.qos import QosAtBoot, QosDcbx, QosPfc, QosTrust
from pdchecks.finding import Impact, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known

# Of the role qos. By itself it starts nothing: its link among the wants of a target does, or the role's rule of udev.
_UNIT = "/etc/systemd/system/pdctl-qos.service"


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    by_switch = {fact.netdev for fact in node.all(QosDcbx) if fact.owner == "firmware"}
    told: dict[str, list[tuple[str, Quote]]] = {}
    for trust in node.all(QosTrust):
        if known(trust.trust) == "dscp":
            told.setdefault(trust.netdev, []).append(("trust dscp", trust.quote))
    for pfc in node.all(QosPfc):
        if on := known(pfc.enabled):
            listed = ", ".join(map(str, sorted(on)))
            told.setdefault(pfc.netdev, []).append((f"PFC on {listed}", pfc.quote))
    for searched in node.all(QosAtBoot):
        for netdev, settings in told.items():
            if netdev not in by_switch and judged(node, netdev):
                yield _judge(netdev, settings, searched)


def _judge(netdev: str, settings: list[tuple[str, Quote]], searched: QosAtBoot) -> Verdict:
    said = ", ".join(dict.fromkeys(text for text, _ in settings))
    quotes = (*(quote for _, quote in settings), searched.quote)
    paths = [path for path in searched.paths if path != _UNIT]
    if paths:
        summary = f"{said}; set again at boot by {', '.join(paths[:3])}"
        return Verdict(Status.PASS, netdev, summary, quotes=quotes)
    return Verdict(
        Status.WARN,
        netdev,
        f"{said} now, and nothing sets it again after a boot",
        "mlnx_qos and dcb write into the running driver. After a reboot, or when the driver is loaded again, the card trusts "
        "PCP and has PFC off: RoCE is lossy, and nothing says so.",
        quotes,
        (f"mlnx_qos -i {netdev}   # after the next boot", "grep -rl mlnx_qos /etc/systemd/system /etc/udev/rules.d"),
        converge(
            "qos",
            "Have a unit or a udev rule that runs the same commands whenever the interface appears.",
            f'printf \'ACTION=="add", SUBSYSTEM=="net", KERNEL=="{netdev}", '
            'RUN+="/usr/local/sbin/roce-qos %k"\\n\' > /etc/udev/rules.d/90-roce-qos.rules',
            impact=Impact.LINK_FLAP,
        ),
    )


CHECK = NodeCheck(
    id="PD-BOOT-002",
    topic="qos.boot",
    title="QoS does not survive a reboot",
    severity=Severity.MEDIUM,
    tools=("grep",),
    sources=("mlnx-tools python/mlnx_qos", "linux drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c"),
    need=Need.ROCE,
    on_demand=True,
    judge=judge,
)
