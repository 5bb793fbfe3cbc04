"""Cards whose firmware stopped or no longer answers its driver: the kernel log says so, interfaces often still look up."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.log import KernelEvent
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_FATAL, _TIMEOUT, _RECOVERED = "card-fatal", "command-timeout", "card-recovered"


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    cards: dict[str, list[KernelEvent]] = {}
    for event in node.all(KernelEvent):
        if event.kind in (_FATAL, _TIMEOUT, _RECOVERED):
            cards.setdefault(event.device, []).append(event)
    for device, events in cards.items():
        if any(event.kind != _RECOVERED for event in events):
            yield _judge(device, events)
    hot = [event for event in node.all(KernelEvent) if event.kind == "card-hot"]
    for device in dict.fromkeys(event.device for event in hot):
        told = [event for event in hot if event.device == device]
        yield Verdict(
            Status.WARN,
            f"{device} temperature",
            f"the card says that it is too hot, {len(told)} times"
            if len(told) > 1
            else "the card says that it is too hot",
            "Air does not reach it as it should, or its module is too warm. Hotter still it throttles, then stops.",
            tuple(event.quote for event in told[:4]),
            ("sensors | grep -A3 mlx5", f"mget_temp -d {device}", f"dmesg -T | grep {device}"),
            Remedy(
                "Look at the fans' speed and at what blocks the air; let the fans of a server with such cards run faster."
            ),
        )


def _judge(device: str, events: list[KernelEvent]) -> Verdict:
    fatal = [event for event in events if event.kind == _FATAL]
    late = [event for event in events if event.kind == _TIMEOUT]
    said = "; ".join(list(dict.fromkeys(event.detail for event in fatal or late))[:3])
    # The kernel logs in order: what comes last is how it stands.
    recovered = events[-1].kind == _RECOVERED or all("recovered" in event.detail for event in events)
    summary = f"the card failed: {said}" if fatal else f"the card's firmware did not answer a command in time: {said}"
    return Verdict(
        Status.WARN if recovered else Status.FAIL,
        device,
        f"{summary}; it recovered" if recovered else summary,
        "The card's firmware stopped, or the card no longer answers on PCIe. Queue pairs on it are lost, and its ports "
        "carry nothing until it has been reset, whatever the interface shows.",
        tuple(event.quote for event in (fatal + late)[:4]),
        (
            f"dmesg -T | grep {device}",
            f"devlink health show pci/{device}",
            f"devlink health dump show pci/{device} reporter fw_fatal",
        ),
        Remedy(
            "Drain the node and keep the dump for the vendor; let the driver recover the card, and where that fails "
            "power the node off and on. If it comes back: newer firmware, then slot and power, then another card.",
            commands=(f"devlink health recover pci/{device} reporter fw_fatal",),
            impact=Impact.DRIVER_RELOAD,
        ),
    )


CHECK = NodeCheck(
    id="PD-MLX-002",
    topic="mlx5.health",
    title="Card's firmware stopped or does not answer",
    severity=Severity.CRITICAL,
    tools=("dmesg", "journalctl"),
    sources=(
        "linux drivers/net/ethernet/mellanox/mlx5/core/health.c",
        "linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c, wait_func()",
        "linux Documentation/networking/devlink/mlx5.rst, health reporters",
    ),
    silence_passes=True,
    judge=judge,
)
