"""GPU memory: how much is taken, by whom, and whether that can be seen at all."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.gpu import GpuProcess
from pdchecks.facts.log import GpuOutOfMemory
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.gpus import Device, devices, processes
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown

_FIELDS = ("memory.used", "memory.total", "memory.free")
_VERIFY = (
    "nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv",
    "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_gpu_memory --format=csv",
    "fuser -v /dev/nvidia*",
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for exhausted in node.all(GpuOutOfMemory):
        yield _exhausted(exhausted)
    known = devices(node)
    by_gpu = processes(node, known)
    listed = bool(node.all(GpuProcess)) or any("query-compute-apps" in command for command in node.commands)
    for device in known:
        if not any(field in device.fields for field in _FIELDS):
            continue
        used, total = device.number("memory.used"), device.number("memory.total")
        if used is None:
            yield _hidden(device)
            continue
        rows = by_gpu.get(device.name, [])
        of = f"{used} of {total} MiB" if total is not None else f"{used} MiB"
        if listed and not rows and used > policy.values.gpu.context.ghost_max_mib and _whole(device):
            yield Verdict(
                Status.WARN,
                device.name,
                f"{of} are in use and no process is listed",
                "A process in another PID namespace, a zombie, or one that died without giving its memory back "
                "holds it.",
                device.quote(*_FIELDS),
                _VERIFY,
                Remedy(
                    "Find who has the device open and end it; what stays after that goes with a GPU reset.",
                    commands=("fuser -v /dev/nvidia*", "nvidia-smi --gpu-reset -i INDEX"),
                ),
            )
        else:
            yield Verdict(Status.PASS, device.name, f"{of} are in use", quotes=device.quote(*_FIELDS))


def _whole(device: Device) -> bool:
    """Under MIG, and without the permission, processes are not listed whoever runs."""
    return device.known("mig.mode.current") != "Enabled"


def _exhausted(exhausted: GpuOutOfMemory) -> Verdict:
    left = f"; {exhausted.free} of {exhausted.total} were free" if exhausted.free and exhausted.total else ""
    others = f"; other processes held {', '.join(exhausted.others)}" if len(exhausted.others) > 1 else ""
    return Verdict(
        Status.FAIL,
        f"GPU {exhausted.gpu}" if exhausted.gpu else "GPU of the program",
        f"a program ran out of GPU memory: it asked for {exhausted.asked}{left}{others}",
        "Weights, KV and the program's working memory together do not fit, or other processes hold a part: a context "
        "alone takes hundreds of MiB on each GPU that a program touches.",
        (exhausted.quote,),
        _VERIFY,
        Remedy(
            "End what does not belong on this GPU; else leave the engine less for KV (vLLM: --gpu-memory-utilization), "
            "a shorter context, fewer requests at once, or more GPUs.",
            commands=("nvidia-smi --query-compute-apps=gpu_uuid,pid,used_gpu_memory --format=csv",),
            impact=Impact.RESTART_ENGINE,
        ),
    )


def _hidden(device: Device) -> Verdict:
    value = next((device.fields[f] for f in _FIELDS if isinstance(device.fields.get(f), Unknown)), None)
    reason = value.reason.split(": ", 1)[-1] if isinstance(value, Unknown) else "nvidia-smi printed no used memory"
    causes = {
        "Insufficient Permissions": "This user or container may see a MIG instance, not the whole GPU's memory.",
        "N/A": "Under MIG, vGPU or on a device with unified memory the driver gives no such number.",
        "Not Supported": "This device gives no such number; on unified memory look at the host's.",
    }
    return Verdict(
        Status.UNKNOWN,
        device.name,
        f"memory in use cannot be seen: {reason}",
        causes.get(reason, "The driver did not answer for this field."),
        device.quote(*_FIELDS),
        ("nvidia-smi -L", "nvidia-smi -q -d MEMORY"),
    )


CHECK = NodeCheck(
    id="PD-GPU-001",
    topic="gpu.memory",
    title="GPU memory held by nobody, or hidden",
    severity=Severity.HIGH,
    tools=("nvidia-smi",),
    sources=("nvidia-smi(1), memory.used", "https://github.com/Stability-AI/StableSwarmUI/issues/388"),
    need=Need.GPU,
    judge=judge,
)
