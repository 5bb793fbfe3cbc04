"""Firmware below the floor of its card's family."""

from collections.abc import Iterator
from dataclasses import dataclass

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.fabric import REPRESENTOR_DRIVERS, netdevs
from pdchecks.facts.firmware import FirmwareImages
from pdchecks.facts.log import KernelEvent
from pdchecks.facts.net import NicDriver
from pdchecks.facts.rdma import RdmaDevice
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.firmware import Card, card_of, fields, is_mellanox, oem
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known


@dataclass(frozen=True, slots=True)
class _Running:
    subject: str
    version: str | Unknown
    part: int | Unknown
    psid: str | Unknown
    quotes: tuple[Quote, ...]


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for running in _running(node):
        if not isinstance(running.version, Unknown):
            yield _judge(running, running.version, policy)


def _running(node: NodeFacts) -> Iterator[_Running]:
    """Each card once, by the tool that knows most of it."""
    belongs = netdevs(node)
    drivers = [d for d in node.all(NicDriver) if d.driver not in REPRESENTOR_DRIVERS]
    devices: dict[str, list[RdmaDevice]] = {}
    for device in node.all(RdmaDevice):
        devices.setdefault(device.device, []).append(device)
    for name, facts in devices.items():
        own = [driver for driver in drivers if belongs.get(driver.netdev) == name]
        yield _Running(
            name,
            _first([fact.firmware for fact in facts] + [driver.firmware for driver in own]),
            next((fact.part for fact in facts if not isinstance(fact.part, Unknown)), facts[0].part),
            _first([fact.psid for fact in facts] + [driver.psid for driver in own]),
            tuple(fact.quote for fact in (*facts, *own)),
        )
    no_part = Unknown("this tool prints no part number")
    told = {driver.netdev for driver in drivers if belongs.get(driver.netdev) in devices}
    buses = {known(driver.bus) for driver in drivers}
    for driver in drivers:
        # Interfaces of other makers and of software tell nothing about RoCE firmware unless they carry RDMA.
        if driver.netdev not in told and (known(driver.driver) or "").startswith("mlx"):
            yield _Running(driver.netdev, driver.firmware, no_part, driver.psid, (driver.quote,))
    if devices or drivers:
        return
    for images in node.all(FirmwareImages):
        if images.device.partition("/")[2] not in buses:
            yield _Running(images.device, images.running, no_part, images.psid, (images.quote,))
    for event in node.all(KernelEvent):
        if event.kind == "firmware":
            yield _Running(event.device, event.detail, no_part, Unknown("the kernel log names no PSID"), (event.quote,))


def _first(values: list[str | Unknown]) -> str | Unknown:
    return next((value for value in values if not isinstance(value, Unknown)), values[0])


def _judge(running: _Running, version: str, policy: Policy) -> Verdict:
    card = card_of(version, running.part, policy.values.firmware)
    if card is None:
        what = "of an unknown family" if is_mellanox(version) else "of another maker"
        summary = f"firmware {version} is {what}: no floor is known"
        return Verdict(Status.INFO, running.subject, summary, quotes=running.quotes)
    maker = oem(running.psid, policy.values.firmware)
    whose = f", OEM image {maker}" if maker else ""
    said = f"{card.family} firmware {version}{whose}"
    minimum, recommended = card.floors.minimum, card.floors.recommended
    if minimum is None and recommended is None:
        return Verdict(Status.INFO, running.subject, f"{said}: no floor is known", quotes=running.quotes)
    if minimum is not None and fields(version) < fields(minimum):
        return _below(
            running, card, maker, f"{said} is below the floor {minimum}", Status.WARN if maker else Status.FAIL
        )
    # The recommended line is one of the vendor's own releases; a server maker has its own.
    if recommended is not None and fields(version) < fields(recommended) and not maker:
        return _below(running, card, maker, f"{said} is below the recommended {recommended}", Status.WARN)
    floor = minimum or recommended
    return Verdict(Status.PASS, running.subject, f"{said} is at or above the floor {floor}", quotes=running.quotes)


def _below(running: _Running, card: Card, maker: str | None, summary: str, status: Status) -> Verdict:
    return Verdict(
        status,
        running.subject,
        summary,
        f"Faults known in it were repaired later ({card.floors.source or 'see the release notes'})."
        + (
            f" PSID {maker} is a server maker's own image: it is numbered and updated by that maker only."
            if maker
            else ""
        ),
        running.quotes,
        ("grep '' /sys/class/infiniband/*/fw_ver /sys/class/infiniband/*/board_id", "mstflint -d <bus address> query"),
        Remedy(
            f"Take the newest image for PSID {maker} from the server's maker; the card's vendor's image is refused."
            if maker
            else "Check that the driver is new enough for it, update with the vendor's tool, reset the card.",
            commands=()
            if maker
            else ("mlxfwmanager --online -u -d <bus address>", "mlxfwreset -d <bus address> reset"),
            impact=Impact.DRIVER_RELOAD,
        ),
    )


CHECK = NodeCheck(
    id="PD-FW-001",
    topic="fw.version",
    title="NIC firmware below its family's floor",
    severity=Severity.MEDIUM,
    tools=("infiniband", "ibv_devinfo", "ibstat", "ethtool", "devlink"),
    sources=("https://docs.nvidia.com/networking/software/adapter-firmware/index.html",),
    need=Need.RDMA,
    judge=judge,
)
