"""Errors of PCI Express links that the root ports report (AER)."""

from collections import Counter
from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.log import KernelEvent
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    functions: dict[tuple[str, str], list[KernelEvent]] = {}
    for event in node.all(KernelEvent):
        if event.kind in ("pcie-error", "pcie-bus-error"):
            functions.setdefault((event.device, _degree(event.detail)), []).append(event)
    for (device, degree), events in functions.items():
        yield _judge(device, degree, events, policy.values.pcie.corrected_storm)


def _degree(detail: str) -> str:
    if detail.startswith("Correct"):
        return "corrected"
    return "uncorrected, not fatal" if "Non-Fatal" in detail else "uncorrected, fatal"


def _judge(device: str, degree: str, events: list[KernelEvent], limit: int) -> Verdict:
    # One error makes a line of the root port and one of the function itself.
    times = max(Counter(event.kind for event in events).values())
    storm = times >= limit
    corrected = degree == "corrected"
    status = (Status.WARN if storm else Status.INFO) if corrected else Status.FAIL
    return Verdict(
        status,
        f"{device} ({degree})",
        f"PCIe error at {device}, {degree}, {f'{times} times' if times > 1 else 'once'}",
        "The link repeats what was damaged, which costs time and tells of a link at its margin."
        if corrected
        else "Data on the link was lost. A fatal error takes the link down: the card or GPU behind it is gone until it "
        "is reset.",
        tuple(event.quote for event in events[:4]),
        (f"lspci -vv -s {device} | grep -E 'LnkSta|UESta|CESta'", f"dmesg -T | grep -A4 'AER.*{device}'"),
        None
        if status is Status.INFO
        else Remedy(
            "Drain the node; reseat the card, its riser and its cables, look for heat; a slot that does it with another "
            "card too is the board's. Do not silence it with pci=noaer.",
            impact=Impact.REBOOT,
        ),
    )


CHECK = NodeCheck(
    id="PD-PCIE-005",
    topic="pcie.errors",
    title="PCI Express errors",
    severity=Severity.HIGH,
    tools=("dmesg", "journalctl"),
    sources=("linux drivers/pci/pcie/aer.c", "linux Documentation/PCI/pcieaer-howto.rst"),
    silence_passes=True,
    judge=judge,
)
