"""Interfaces whose card took packets and never sent them."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.fabric import RDMA_DRIVERS, carries_rdma
from pdchecks.facts.log import KernelEvent
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    interfaces: dict[str, list[KernelEvent]] = {}
    for event in node.all(KernelEvent):
        if event.kind == "transmit-timeout":
            interfaces.setdefault(event.device, []).append(event)
    for netdev, events in interfaces.items():
        carries = carries_rdma(node, netdev)
        fabric = carries or (carries is None and events[0].driver in RDMA_DRIVERS)
        times = f", {len(events)} times" if len(events) > 1 else ""
        yield Verdict(
            Status.FAIL if fabric else Status.WARN,
            netdev,
            f"{netdev} ({events[0].driver}): {events[0].detail}{times}",
            "The card took packets and did not send them in time: its firmware or its PCIe link hangs, or pause frames "
            "hold the link. The driver resets the queue, and what was in it is lost.",
            tuple(event.quote for event in events[:4]),
            (
                f"dmesg -T | grep -B2 -A20 'NETDEV WATCHDOG.*{netdev}'",
                f"ethtool -S {netdev} | grep -iE 'pause|timeout'",
            ),
            Remedy(
                "Read the lines before it for errors of card or PCIe; look at pause frames that never end; then bring "
                "driver and firmware to releases of the same time.",
                commands=(f"ip link set dev {netdev} down && ip link set dev {netdev} up",),
                survives_reboot=False,
                impact=Impact.LINK_FLAP,
            ),
        )


CHECK = NodeCheck(
    id="PD-LINK-006",
    topic="link.transmit",
    title="Transmit queue of an interface timed out",
    severity=Severity.HIGH,
    tools=("dmesg", "journalctl"),
    sources=("linux net/sched/sch_generic.c, dev_watchdog()",),
    silence_passes=True,
    judge=judge,
)
