"""Firmware and driver that do not know each other."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.facts.log import KernelEvent
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_SIGNS = ("capability-refused", "firmware-mismatch")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    events: dict[str, list[KernelEvent]] = {}
    for event in node.all(KernelEvent):
        if event.kind in (*_SIGNS, "probe-failed", "firmware"):
            events.setdefault(event.device, []).append(event)
    for device, seen in events.items():
        if signs := [event for event in seen if event.kind in _SIGNS]:
            yield _judge(device, seen, signs)


def _judge(device: str, seen: list[KernelEvent], signs: list[KernelEvent]) -> Verdict:
    firmware = next((event.detail for event in seen if event.kind == "firmware"), None)
    dead = any(event.kind == "probe-failed" or "stopped" in event.detail for event in seen)
    quotes: tuple[Quote, ...] = tuple(event.quote for event in seen)
    words = signs[0].detail.strip()
    older = "older" in words
    return Verdict(
        Status.FAIL if dead else Status.WARN,
        device,
        f"firmware {firmware or '(version not printed)'} and driver do not fit: {words}",
        "The firmware is older than the driver expects."
        if older
        else "The driver asked the card for capabilities and could not set them: usually the firmware is newer than "
        "an old inbox driver knows. Upgrading the firmware further makes it worse.",
        quotes,
        (
            "modinfo -F version mlx5_core; uname -r",
            f"dmesg | grep {device}",
            "lspci -nn | grep -Ei 'ethernet|infiniband'",
        ),
        Remedy(
            "Update the firmware to the driver's level."
            if older
            else "Use a newer driver (kernel or the vendor's package), or go back to a firmware of its time.",
            impact=Impact.DRIVER_RELOAD,
        ),
    )


CHECK = NodeCheck(
    id="PD-FW-003",
    topic="fw.driver-match",
    title="Firmware and driver do not fit",
    severity=Severity.HIGH,
    tools=("dmesg", "journalctl"),
    sources=("https://github.com/pocopico/rp-ext/issues/129", "linux drivers/net/ethernet/mellanox/mlx5/core/main.c"),
    silence_passes=True,
    judge=judge,
)
