"""Cards whose driver gave up when it started: no interface, no RDMA device, only the kernel log tells."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.fabric import RDMA_DRIVERS
from pdchecks.facts.log import KernelEvent
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_DRIVERS = RDMA_DRIVERS | {"irdma", "bnxt_re", "mlx5_ib", "nvidia", "nvidia-nvswitch", "nvidia_peermem"}
_MEANING = {
    "-22": "invalid argument: the card's firmware and this driver do not agree on a setting",
    "-110": "timed out: the firmware did not answer",
    "-12": "out of memory",
    "-19": "no such device: the card does not answer on the bus",
    "-5": "input/output error: the card or its slot is faulty",
    "-16": "busy: another function or a firmware reset holds the card",
    "-28": "no space: PCI BAR or resources are exhausted",
}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    failed: dict[str, list[KernelEvent]] = {}
    for event in node.all(KernelEvent):
        if event.kind == "probe-failed" and event.driver.replace("-", "_") in {d.replace("-", "_") for d in _DRIVERS}:
            failed.setdefault(event.device, []).append(event)
    for device, events in failed.items():
        codes = list(dict.fromkeys(event.detail for event in events))
        quotes: tuple[Quote, ...] = tuple(event.quote for event in events)
        meaning = next((_MEANING[code] for code in codes if code in _MEANING), "see errno(3)")
        yield Verdict(
            Status.FAIL,
            device,
            f"{events[0].driver} could not start this card: error {', '.join(codes)}",
            f"{meaning[0].upper()}{meaning[1:]}. The card has no network interface and no RDMA device, so that no "
            "other tool shows it.",
            quotes,
            (f"dmesg | grep {device}", f"lspci -nnk -s {device}"),
            Remedy(
                "Read the lines before it in the kernel log; compare driver and firmware versions; reset or reseat "
                "the card.",
                commands=(
                    f"echo 1 > /sys/bus/pci/devices/{device}/remove",
                    "echo 1 > /sys/bus/pci/rescan",
                ),
                survives_reboot=False,
                impact=Impact.DRIVER_RELOAD,
            ),
        )


CHECK = NodeCheck(
    id="PD-DRV-001",
    topic="driver.probe",
    title="Driver could not start a card",
    severity=Severity.CRITICAL,
    tools=("dmesg", "journalctl"),
    sources=("https://github.com/PeterSuh-Q3/tinycore-redpill/issues/9", "linux drivers/base/dd.c"),
    silence_passes=True,
    judge=judge,
)
