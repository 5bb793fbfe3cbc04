"""Whether the card may order its PCIe writes relaxed, which GPUs and large machines need for full rate."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.firmware import NvParameter
from pdchecks.facts.host import Environment
from pdchecks.facts.net import PciOrdering
from pdchecks.facts.perftest import PerftestRun
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_NETWORK = ("Ethernet controller", "Infiniband controller", "InfiniBand controller")
_VARIABLE = "NCCL_IB_PCI_RELAXED_ORDERING"


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for run in node.all(PerftestRun):
        if run.ordering_warning:
            yield Verdict(
                Status.WARN,
                run.device,
                f"{run.tool}: the CPU is not PCIe relaxed ordering compliant, and the test used relaxed ordering",
                "This CPU does not keep the rules that relaxed ordering relies on. The figures of the run are not to "
                "be trusted, and a program that forces relaxed ordering may see data late.",
                (run.quote,),
                (f"{run.tool.split()[0]} -d {run.device} --disable_pcie_relaxed <peer>",),
                Remedy(
                    "Repeat the test with --disable_pcie_relaxed on both sides, and leave NCCL's choice on automatic.",
                    commands=(f"unset {_VARIABLE}",),
                    survives_reboot=False,
                ),
            )
    for ordering in node.all(PciOrdering):
        if ordering.kind in _NETWORK:
            yield _function(ordering)
    for environment in node.all(Environment):
        if environment.values.get(_VARIABLE, "").strip("\"'") == "0":
            yield Verdict(
                Status.WARN,
                _VARIABLE,
                f"{_VARIABLE}=0 forbids relaxed ordering",
                "Between GPU and NIC strict ordering costs bandwidth on most servers; the library finds out by itself.",
                (environment.quote,),
                (f"env | grep {_VARIABLE}",),
                Remedy("Unset it.", commands=(f"unset {_VARIABLE}",), survives_reboot=False),
            )
    for parameter in node.all(NvParameter):
        if parameter.name == "PCI_WR_ORDERING":
            summary = f"PCI_WR_ORDERING is {parameter.next_boot} at the next boot"
            yield Verdict(Status.INFO, f"{parameter.device} settings", summary, quotes=(parameter.quote,))


def _function(ordering: PciOrdering) -> Verdict:
    if ordering.relaxed:
        return Verdict(Status.PASS, ordering.address, "relaxed ordering is allowed", quotes=(ordering.quote,))
    return Verdict(
        Status.WARN,
        ordering.address,
        "relaxed ordering is off for this card (RlxdOrd-)",
        "The BIOS or a quirk of the kernel turned it off for this root port: strictly ordered writes to GPU or far "
        "memory stay below the rate of a fast link.",
        (ordering.quote,),
        (f"lspci -vvv -s {ordering.address} | grep RlxdOrd", "dmesg | grep -i 'relaxed ordering'"),
        Remedy("Allow PCIe relaxed ordering in the BIOS, unless the CPU's maker tells not to."),
    )


CHECK = NodeCheck(
    id="PD-PCIE-004",
    topic="pcie.relaxed-ordering",
    title="PCIe relaxed ordering",
    severity=Severity.LOW,
    tools=("lspci",),
    sources=("perftest src/perftest_parameters.c", "pciutils ls-caps.c"),
    need=Need.RDMA,
    on_demand=True,
    judge=judge,
)
