"""Stray CUDA contexts: processes that hold an empty context's worth of memory on a GPU where they do no work."""

from collections.abc import Iterator, Mapping

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.gpu import GpuProcess, VisibleDevices
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.gpus import Device, devices, processes
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known

# The server of the multi-process service holds a context for its clients.
_MPS = "nvidia-cuda-mps"
_VERIFY = (
    "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory --format=csv",
    "tr '\\0' '\\n' < /proc/PID/environ | grep CUDA_VISIBLE_DEVICES",
)
_REMEDY = Remedy(
    "Give each process only its own GPU before CUDA starts, and restart it; a context goes away with its process. "
    "torch.cuda.empty_cache() destroys no context, and set_device() on every GPU creates them.",
    commands=(
        "CUDA_VISIBLE_DEVICES=INDEX COMMAND",
        "systemctl set-environment or Environment= in the unit",
        "kill PID",
    ),
    impact=Impact.RESTART_ENGINE,
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    gpus = devices(node)
    by_gpu = processes(node, gpus)
    for name, rows in by_gpu.items():
        yield _gpu(name, rows, by_gpu, gpus, node, policy)
    if any("query-compute-apps" in command for command in node.commands):
        for device in gpus:
            if device.name not in by_gpu:
                yield Verdict(Status.PASS, device.name, "no process has a context on it", quotes=device.quote("uuid"))


def _gpu(
    name: str,
    rows: list[GpuProcess],
    by_gpu: Mapping[str, list[GpuProcess]],
    gpus: list[Device],
    node: NodeFacts,
    policy: Policy,
) -> Verdict:
    quotes = tuple(row.quote for row in rows)
    compute = [row for row in rows if "C" in row.kind and _MPS not in (known(row.name) or "")]
    strangers = [row for row in compute if _not_given(row, name, gpus, node)]
    if strangers:
        return Verdict(
            Status.FAIL,
            name,
            f"{_pids(strangers)} has a context on it, though its CUDA_VISIBLE_DEVICES does not name it",
            "The process was started with other devices than its environment says now, or a child of it changed them.",
            quotes,
            _VERIFY,
            _REMEDY,
        )
    ghosts = [row for row in compute if _ghost(row, policy)]
    stray = [row for row in ghosts if _works_elsewhere(row, name, by_gpu, policy) or len(compute) > 1]
    if stray:
        context = policy.values.gpu.context
        amounts = ", ".join(f"{known(row.used_mib)} MiB" for row in stray[:4])
        return Verdict(
            Status.WARN,
            name,
            f"{len(stray)} of {len(compute)} processes on it hold no more than an empty context: {_pids(stray)} "
            f"({amounts})",
            f"{context.ghost_min_mib} to {context.ghost_max_mib} MiB is what a CUDA context costs by itself. The "
            "classic: each rank touches the first GPU before it selects its own. It takes memory from the one who "
            "works there.",
            quotes,
            _VERIFY,
            _REMEDY,
        )
    hidden = [row for row in compute if isinstance(row.used_mib, Unknown)]
    if hidden:
        return Verdict(
            Status.UNKNOWN,
            name,
            f"not known how much memory {len(hidden)} of {len(rows)} processes use: {_pids(hidden)}",
            "Under MIG, or for processes of another container, the driver gives neither name nor memory.",
            quotes,
            ("nvidia-smi", "fuser -v /dev/nvidia*"),
        )
    status = Status.INFO if ghosts else Status.PASS
    used = sum(known(row.used_mib) or 0 for row in rows)
    idle = "; it holds no more than an empty context" if ghosts else ""
    return Verdict(status, name, f"{_pids(rows)} on it, {used} MiB{idle}", quotes=quotes)


def _ghost(row: GpuProcess, policy: Policy) -> bool:
    context, used = policy.values.gpu.context, known(row.used_mib)
    return used is not None and context.ghost_min_mib <= used <= context.ghost_max_mib


def _works_elsewhere(row: GpuProcess, name: str, by_gpu: Mapping[str, list[GpuProcess]], policy: Policy) -> bool:
    return any(
        other.pid == row.pid and (known(other.used_mib) or 0) > policy.values.gpu.context.ghost_max_mib
        for gpu, rows in by_gpu.items()
        if gpu != name and isinstance(row.pid, int)
        for other in rows
    )


def _not_given(row: GpuProcess, name: str, gpus: list[Device], node: NodeFacts) -> bool:
    """Whether the environment of the process names other GPUs than this one, by UUID (which may be cut short). An index
    proves nothing: inside a container it counts only the GPUs that were passed in."""
    given = next((fact.devices for fact in node.all(VisibleDevices) if fact.pid == known(row.pid)), ())
    uuid = next((device.known("uuid") for device in gpus if device.name == name), None)
    if uuid is None or not given or not all(word.startswith("GPU-") for word in given):
        return False
    return not any(uuid.startswith(word) for word in given)


def _pids(rows: list[GpuProcess]) -> str:
    pids = [str(row.pid) if isinstance(row.pid, int) else "an unseen process" for row in rows]
    shown = ", ".join(pids[:6]) + (f" and {len(pids) - 6} more" if len(pids) > 6 else "")
    return f"PID {shown}" if isinstance(rows[0].pid, int) else shown


CHECK = NodeCheck(
    id="PD-GPU-003",
    topic="gpu.context",
    title="Stray CUDA context",
    severity=Severity.MEDIUM,
    tools=("nvidia-smi",),
    sources=(
        "https://github.com/pytorch/pytorch/issues/49481",
        "https://github.com/pytorch/pytorch/issues/135279",
        "CUDA C Programming Guide, Initialization: the primary context of a device",
    ),
    need=Need.GPU,
    judge=judge,
)
