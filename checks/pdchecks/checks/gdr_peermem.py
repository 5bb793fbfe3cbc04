"""Whether a NIC can reach GPU memory: nvidia_peermem, or DMA-BUF."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.facts.host import LoadedModules, ModuleRefused
from pdchecks.facts.log import GpuDirect, KernelEvent
from pdchecks.facts.rdma import PeerMemory
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_MODULES = ("nvidia_peermem", "nv_peer_mem")
_VERIFY = (
    "lsmod | grep -E 'nvidia_peermem|nv_peer_mem'",
    "ls /sys/kernel/mm/memory_peers",
    "modinfo -F license nvidia   # Dual MIT/GPL: the open modules, which have DMA-BUF",
)
_REMEDY = Remedy(
    "Use the open NVIDIA kernel modules with a kernel of 5.12 or newer and CUDA 11.7 or newer: DMA-BUF then needs no "
    "module. Else load nvidia_peermem, built against the RDMA stack that is installed (install the vendor's RDMA "
    "stack first, the NVIDIA driver after it).",
    commands=("modprobe nvidia_peermem", "echo nvidia_peermem > /etc/modules-load.d/nvidia-peermem.conf"),
    impact=Impact.RESTART_ENGINE,
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for direct in node.all(GpuDirect):
        yield _library(direct)
    broken = [
        (f"{fact.module}: {fact.words}", fact.quote) for fact in node.all(ModuleRefused) if fact.module in _MODULES
    ]
    broken += [
        (f"{event.device}: {event.detail}", event.quote)
        for event in node.all(KernelEvent)
        if event.kind == "symbol-refused"
    ]
    peers = node.all(PeerMemory)
    if broken and not peers:
        yield _broken(broken)
    elif peers:
        yield Verdict(Status.PASS, "peer memory", f"{peers[0].client} is registered", quotes=(peers[0].quote,))
    else:
        for modules in node.all(LoadedModules):
            yield from _modules(modules)


def _library(direct: GpuDirect) -> Verdict:
    if direct.enabled:
        return Verdict(Status.PASS, direct.device, "GPU Direct RDMA is enabled", quotes=(direct.quote,))
    far = "distance" in direct.why
    return Verdict(
        Status.FAIL if not far else Status.WARN,
        direct.device,
        "GPU Direct RDMA is disabled: data takes the way through host memory" + (f" ({direct.why})" if far else ""),
        "NIC and GPU stand too far from each other for the library's taste (NCCL_NET_GDR_LEVEL)."
        if far
        else "The library found neither nvidia_peermem nor DMA-BUF: the NIC cannot register GPU memory. Each transfer "
        "is copied twice, at a fraction of the rate and with CPU load.",
        (direct.quote,),
        _VERIFY,
        _REMEDY if not far else Remedy("Use the NIC that is near this GPU (nvidia-smi topo -m)."),
    )


def _broken(broken: list[tuple[str, Quote]]) -> Verdict:
    symbols = any("symbol" in words or "nvalid argument" in words for words, _ in broken)
    return Verdict(
        Status.FAIL,
        "peer memory",
        f"the peer memory module does not load: {broken[0][0]}",
        "It was built against another RDMA stack than the one that is loaded: ib_core has not the symbols that it "
        "wants. With the inbox stack it cannot work; DMA-BUF can."
        if symbols
        else "The module is not there for this kernel.",
        tuple(quote for _, quote in broken),
        (*_VERIFY, "dmesg | grep -E 'peermem|peer_mem'"),
        _REMEDY,
    )


def _modules(modules: LoadedModules) -> Iterator[Verdict]:
    if not {"nvidia", "ib_core"} <= modules.names:
        return
    loaded = [module for module in _MODULES if module in modules.names]
    if loaded:
        yield Verdict(Status.PASS, "peer memory", f"{loaded[0]} is loaded", quotes=(modules.quote,))
        return
    if not all(map(modules.lacks, _MODULES)):
        return
    yield Verdict(
        Status.UNKNOWN,
        "peer memory",
        "nvidia_peermem is not loaded; whether the driver offers DMA-BUF instead cannot be seen from this",
        "With the open kernel modules GPUDirect works without it; with the proprietary ones it does not.",
        (modules.quote,),
        _VERIFY,
        _REMEDY,
    )


CHECK = NodeCheck(
    id="PD-GDR-001",
    topic="gdr.peermem",
    title="NIC cannot reach GPU memory",
    severity=Severity.HIGH,
    tools=("lsmod", "memory_peers", "dmesg"),
    sources=(
        "https://docs.nvidia.com/cuda/gpudirect-rdma/",
        "https://github.com/Mellanox/nv_peer_memory/issues/116",
        "https://github.com/NVIDIA/nccl/issues/1412",
    ),
    need=Need.GPU,
    judge=judge,
)
