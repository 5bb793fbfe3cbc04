"""PCI Express links of NICs and GPUs that came up narrower or slower than they can."""

from collections.abc import Iterator
from dataclasses import replace

from pdchecks.check import Need, NodeCheck, Verdict, mild
from pdchecks.evidence import Quote
from pdchecks.fabric import Port, port_of
from pdchecks.facts.gpu import GpuPresent
from pdchecks.facts.net import NicDriver, PciBandwidth, PciFunction, PciLink
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.pcie import gbps
from pdchecks.policy import Policy
from pdchecks.unknown import known

_NETWORK = ("Ethernet controller", "Infiniband controller", "InfiniBand controller", "Network controller")
_GPU = ("3D controller", "VGA compatible controller", "Display controller", "Processing accelerators")

# Drivers of disks, which say it of themselves.
_OTHERS = ("nvme", "ahci", "mpt3sas", "megaraid_sas", "xhci_hcd")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    ports = {known(driver.bus): port_of(node, driver.netdev) for driver in node.all(NicDriver)}
    gpus = {address for present in node.all(GpuPresent) for address in present.addresses}
    for link in node.all(PciLink):
        if not link.kind and link.address in ports and link.address not in gpus:
            link = replace(link, kind=_NETWORK[0])
        if link.width and link.max_width and (link.kind in (*_NETWORK, *_GPU) or not link.kind):
            yield _judge_link(link, ports.get(link.address))
    kinds = {function.address: function.kind for function in node.all(PciFunction)}
    for limited in node.all(PciBandwidth):
        # The bus says it of every function, of disks too.
        ours = limited.driver != "pci" or limited.address in ports or limited.address in gpus
        if limited.driver in _OTHERS or kinds.get(limited.address, _NETWORK[0]) not in (*_NETWORK, *_GPU):
            continue
        verdict = _judge_bandwidth(limited, ports.get(limited.address))
        yield verdict if ours or limited.address in kinds else mild(verdict, "of a device that the line does not tell")


def _judge_link(link: PciLink, port: Port | None) -> Verdict:
    # A GPU at rest lowers its speed, never its width; without a class it may be one.
    slow = link.speed < link.max_speed and link.kind in _NETWORK
    narrow = link.width < link.max_width
    now, best = gbps(link.speed, link.width), gbps(link.max_speed, link.max_width)
    shown = f"{link.speed:g} GT/s x{link.width} ({now:.0f} Gb/s)"
    if not (slow or narrow):
        return Verdict(Status.PASS, link.address, f"PCIe link is {shown}", quotes=(link.quote,))
    can = f"{link.max_speed:g} GT/s x{link.max_width} ({best:.0f} Gb/s)"
    return _limited(link.address, f"PCIe link is {shown}; the card can do {can}", now, port, (link.quote,))


def _judge_bandwidth(limited: PciBandwidth, port: Port | None) -> Verdict:
    summary = (
        f"PCIe gives {limited.available_gbps:g} Gb/s, limited by the link at {limited.at}; the card can do "
        f"{limited.capable_gbps:g} Gb/s"
    )
    return _limited(limited.address, summary, limited.available_gbps, port, (limited.quote,))


def _limited(address: str, summary: str, now: float, port: Port | None, quotes: tuple[Quote, ...]) -> Verdict:
    rate = known(port.rate_gbps) if port and port.active else None
    starved = rate is not None and now < rate
    return Verdict(
        Status.FAIL if starved else Status.WARN,
        address,
        f"{summary}; its network link runs at {rate:g} Gb/s" if starved else summary,
        "The slot has fewer lanes or an older generation than the card, a riser or the card sits badly, or the BIOS "
        "limits the slot. What the network brings faster than PCIe takes ends in pause frames or discards.",
        (*quotes, *(port.quotes if port and starved else ())),
        (f"lspci -vv -s {address} | grep -E 'LnkCap|LnkSta'", f"dmesg | grep '{address}.*PCIe bandwidth'"),
        Remedy(
            "Reseat the card, use a slot with all its lanes, look at the slot's speed in the BIOS.",
            impact=Impact.REBOOT,
        ),
    )


CHECK = NodeCheck(
    id="PD-PCIE-001",
    topic="pcie.width",
    title="PCIe link narrower or slower than the card",
    severity=Severity.HIGH,
    tools=("lspci", "link_width", "dmesg"),
    sources=("linux drivers/pci/pci.c, __pcie_print_link_status()", "pciutils ls-caps.c"),
    need=Need.RDMA,
    judge=judge,
)
