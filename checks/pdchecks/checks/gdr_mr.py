"""GPU memory that could not be registered with the NIC, or that the NIC could not use."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.facts.log import ObjectRefused, WorkCompletion
from pdchecks.facts.perftest import PerftestRun
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known

_PROTECTION = 4
# Vendor syndrome 0x51: the NIC's own PCIe access was refused (seen with every GPU-side failure in public reports).
_VENDOR_PCI = 0x51
_REGISTRATION = ("allocate mr", "create mr", "register", "reg_mr", "dmabuf")
_GPU_SIDE = (
    "Registration worked, then the NIC's access to the GPU's memory was refused: the GPU's BAR, an IOMMU or ACS "
    "between the two, or the machine's topology. If one direction works and the other does not, it is the receiving "
    "host's GPU side."
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for run in node.all(PerftestRun):
        if run.cuda and run.status == _PROTECTION:
            summary = f"{run.tool} on GPU memory failed: status 4 (IBV_WC_LOC_PROT_ERR, local protection error)"
            yield _failed(run.device, summary, _GPU_SIDE, (run.quote,))
        elif run.cuda and (words := [w for w in run.failures if any(sign in w.lower() for sign in _REGISTRATION)]):
            summary = f"{run.tool} could not register GPU memory: {words[0]}"
            yield _failed(run.device, summary, _NO_WAY, (run.quote,))
        elif run.cuda and run.averages and not run.failures:
            summary = f"{run.tool} ran on GPU memory"
            yield Verdict(Status.PASS, run.device, summary, quotes=(run.quote,))
    for refused in node.all(ObjectRefused):
        if refused.call.startswith(("ibv_reg_mr", "ibv_reg_dmabuf")) and (
            "Bad address" in refused.words or "dmabuf" in refused.call
        ):
            summary = f"{refused.call} failed: {refused.words}"
            yield _failed("memory registration", summary, _NO_WAY, (refused.quote,))
    for work in node.all(WorkCompletion):
        if work.status == _PROTECTION and known(work.vendor) == _VENDOR_PCI:
            summary = "a transfer failed with completion status 4 (local protection error), vendor error 81 (0x51)"
            yield _failed(known(work.device) or "GPU memory", summary, _GPU_SIDE, (work.quote,))


_NO_WAY = (
    "The NIC has no way to GPU memory: nvidia_peermem is not loaded or does not fit, and DMA-BUF is not offered "
    "(proprietary driver, old kernel, vGPU). The same test on host memory works in that case."
)


def _failed(subject: str, summary: str, cause: str, quotes: tuple[Quote, ...]) -> Verdict:
    return Verdict(
        Status.FAIL,
        subject,
        summary,
        cause,
        quotes,
        (
            "lsmod | grep nvidia_peermem; modinfo -F license nvidia",
            "ib_write_bw -d <device> <peer>   # the same on host memory",
            "lspci -vvv | grep ACSCtl; dmesg | grep -i -E 'dmar|iommu|BAR'",
        ),
        Remedy(
            "Load nvidia_peermem, or use DMA-BUF (open kernel modules, kernel 5.12 or newer, --use_cuda_dmabuf). "
            "Then see that ACS is off between GPU and NIC, the IOMMU passes through, and the GPU's whole BAR is "
            "mapped.",
            commands=("modprobe nvidia_peermem",),
            survives_reboot=False,
            impact=Impact.RESTART_ENGINE,
        ),
    )


CHECK = NodeCheck(
    id="PD-GDR-002",
    topic="gdr.mr",
    title="GPU memory cannot be registered or used by the NIC",
    severity=Severity.HIGH,
    tools=("perftest",),
    sources=("https://github.com/linux-rdma/perftest/issues/126", "https://github.com/linux-rdma/perftest/issues/289"),
    on_demand=True,
    judge=judge,
)
