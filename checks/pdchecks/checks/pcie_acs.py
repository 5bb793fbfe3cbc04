"""PCIe access control that sends traffic between GPU and NIC through the root."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.net import PciAcs
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known

# Bits by which a bridge takes a peer-to-peer request away from the direct way; PCI Express Base Specification 6.12.
_REDIRECT = frozenset({"ReqRedir", "CmpltRedir", "EgressCtrl"})


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    controls = [fact for fact in node.all(PciAcs) if "ridge" in fact.kind or not fact.kind]
    if not controls:
        controls = list(node.all(PciAcs))
    if not controls:
        return
    redirecting = [fact for fact in controls if fact.on & _REDIRECT]
    validating = [fact for fact in controls if fact.on and not fact.on & _REDIRECT]
    if not redirecting and not validating:
        summary = f"ACS is off on all {len(controls)} functions that have it"
        yield Verdict(Status.PASS, "PCIe bridges", summary, quotes=(controls[0].quote,))
        return
    shown = redirecting or validating
    bits = sorted(frozenset().union(*(fact.on for fact in shown)))
    addresses = [address for fact in shown if (address := known(fact.address))]
    where = f" ({', '.join(addresses[:8])})" if addresses else ""
    yield Verdict(
        Status.WARN,
        "PCIe bridges",
        f"ACS is on for {len(shown)} of {len(controls)} functions{where}: {', '.join(f'{bit}+' for bit in bits)}",
        "A bridge with these bits sends what a GPU and a NIC below it say to each other up to the root complex, "
        "where it is slow, or refused: GPUDirect then fails with local protection errors or runs at a fraction. In a "
        "virtual machine ACS has to stay on, with ATS."
        if redirecting
        else "Only source validation is on, which NCCL's guide also counts as ACS; it does not redirect, and some "
        "platforms work with it.",
        tuple(fact.quote for fact in shown),
        ("lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'", "nvidia-smi topo -m"),
        Remedy(
            "On bare metal turn ACS off on the bridges between GPU and NIC, in the BIOS or at each boot; keep the "
            "IOMMU in pass-through (iommu=pt). Off is necessary, not sufficient.",
            commands=tuple(f"setpci -s {address} ECAP_ACS+0x6.w=0000" for address in addresses[:4])
            or ("setpci -s <bridge> ECAP_ACS+0x6.w=0000",),
            survives_reboot=False,
        ),
    )


CHECK = NodeCheck(
    id="PD-PCIE-003",
    topic="pcie.acs",
    title="ACS is on between GPU and NIC",
    severity=Severity.HIGH,
    tools=("lspci",),
    sources=(
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        "https://github.com/openucx/ucx/pull/11412",
    ),
    need=Need.GPU,
    judge=judge,
)
