"""Firmware and settings that are stored on the card and not yet in use."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.firmware import FirmwareImages, NvParameter
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for images in node.all(FirmwareImages):
        yield _images(images)
    settings: dict[str, list[NvParameter]] = {}
    for parameter in node.all(NvParameter):
        if not isinstance(parameter.now, Unknown):
            settings.setdefault(parameter.device, []).append(parameter)
    for device, parameters in settings.items():
        yield _settings(device, parameters)


def _images(images: FirmwareImages) -> Verdict:
    running, stored = known(images.running), known(images.stored)
    if running is None or stored is None:
        why = [value.reason for value in (images.running, images.stored) if isinstance(value, Unknown)]
        told = f"running {running or 'not told'}, stored {stored or 'not told'}"
        summary = f"not known whether other firmware waits for a reset: {told}: {'; '.join(why)}"
        return Verdict(
            Status.UNKNOWN,
            images.device,
            summary,
            "The card did not tell which image it will start next; a card with no working flash answers so.",
            (images.quote,),
            ("mstflint -d <bus address> query",),
        )
    if running == stored:
        return Verdict(Status.PASS, images.device, f"running and stored firmware are {running}", quotes=(images.quote,))
    return Verdict(
        Status.WARN,
        images.device,
        f"firmware {stored} is stored, {running} still runs: a reset is pending",
        "A new image takes effect only when the card is reset; until then the old one's faults are there.",
        (images.quote,),
        (f"devlink dev info {images.device}",),
        _reset(images.device.partition("/")[2] or images.device),
    )


def _settings(device: str, parameters: list[NvParameter]) -> Verdict:
    pending = [p for p in parameters if p.now != p.next_boot]
    if not pending:
        quotes = (parameters[0].quote,)
        summary = f"{len(parameters)} card settings are in use as they are stored"
        return Verdict(Status.PASS, f"{device} settings", summary, quotes=quotes)
    listed = ", ".join(f"{p.name} {known(p.now)} -> {p.next_boot}" for p in pending[:6])
    return Verdict(
        Status.WARN,
        f"{device} settings",
        f"{len(pending)} card settings wait for a reset: {listed}",
        "mlxconfig writes what the card takes at its next start; the running card still has the old values.",
        tuple(p.quote for p in pending),
        (f"mlxconfig -d {device} -e query",),
        _reset(device),
    )


def _reset(address: str) -> Remedy:
    return Remedy(
        "Reset the card, or power-cycle the machine where the tool says that a reset is not enough.",
        commands=(f"mlxfwreset -d {address} query", f"mlxfwreset -d {address} -y reset"),
        impact=Impact.DRIVER_RELOAD,
    )


CHECK = NodeCheck(
    id="PD-FW-002",
    topic="fw.pending",
    title="Stored firmware or settings wait for a reset",
    severity=Severity.MEDIUM,
    tools=("devlink", "mlxconfig", "mstconfig"),
    sources=("linux Documentation/networking/devlink/devlink-info.rst", "mstflint mlxconfig"),
    need=Need.RDMA,
    judge=judge,
)
