"""CUDA programs that the driver refused: their own words say whether driver, fabric manager, memory cells or mode did it."""

from collections.abc import Iterator
from dataclasses import dataclass

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.log import CudaRefused
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


@dataclass(frozen=True, slots=True)
class _Refusal:
    """subject: the object of the finding; the rest as in a verdict."""

    subject: str
    summary: str
    cause: str
    verify: tuple[str, ...]
    remedy: Remedy


_VERSIONS = (
    "nvidia-smi | head -4   # the newest CUDA that this driver serves",
    "python3 -c 'import torch; print(torch.version.cuda)'   # the CUDA that the engine was built for",
)
_REFUSALS = {
    "not-initialised": _Refusal(
        "fabric of the GPUs",
        "CUDA does not start: system not yet initialized (error 802)",
        "On a machine with NVSwitch every GPU waits for the fabric manager: it is not installed, not running, or of "
        "another version than the driver.",
        ("systemctl status nvidia-fabricmanager", "nvidia-smi -q | grep -A2 Fabric", "cat /proc/driver/nvidia/version"),
        Remedy(
            "Install the fabric manager of exactly the driver's version and start it at each boot.",
            commands=("systemctl enable --now nvidia-fabricmanager",),
            impact=Impact.RESTART_ENGINE,
        ),
    ),
    "fabric-version": _Refusal(
        "fabric of the GPUs",
        "the fabric manager is of another version than the driver",
        "It stops at its start, and without it no CUDA program starts on a machine with NVSwitch. Upgrades of one package "
        "and not of the other end so.",
        ("systemctl status nvidia-fabricmanager", "nv-fabricmanager --version", "cat /proc/driver/nvidia/version"),
        Remedy(
            "Install the fabric manager of exactly the driver's version, and hold both packages together.",
            commands=("systemctl restart nvidia-fabricmanager",),
            impact=Impact.RESTART_ENGINE,
        ),
    ),
    "driver-too-old": _Refusal(
        "driver against CUDA",
        "the driver is too old for the CUDA that the program was built for",
        "A program of a newer CUDA needs a newer driver: each release of CUDA names the oldest that serves it.",
        _VERSIONS,
        Remedy(
            "Upgrade the driver, or install the engine as built for a CUDA that this driver serves.",
            commands=("nvidia-smi", "pip list | grep -iE 'torch|cuda'"),
            impact=Impact.REBOOT,
        ),
    ),
    "driver-mixed": _Refusal(
        "driver against CUDA",
        "libcuda and the loaded kernel module do not belong together (error 803)",
        "A container or a package brought its own libcuda (the compatibility package, often), or the driver was "
        "upgraded while its module stayed loaded.",
        ("ldconfig -p | grep libcuda", "cat /proc/driver/nvidia/version", *_VERSIONS),
        Remedy(
            "Let the program load the driver's own libcuda: take the cuda-compat folder out of LD_LIBRARY_PATH; after an "
            "upgrade reboot.",
            commands=("systemctl reboot",),
            impact=Impact.REBOOT,
        ),
    ),
    "no-forward": _Refusal(
        "driver against CUDA",
        "CUDA's forward compatibility was asked for on a GPU that has none (error 804)",
        "The compatibility package works on data-centre GPUs only, and not with every driver.",
        ("ldconfig -p | grep libcuda", *_VERSIONS),
        Remedy(
            "Take the cuda-compat folder out of LD_LIBRARY_PATH, and upgrade the driver where it is too old without it.",
            commands=("echo $LD_LIBRARY_PATH",),
            impact=Impact.RESTART_ENGINE,
        ),
    ),
    "ecc": _Refusal(
        "GPU memory cells",
        "a program ended on an uncorrectable ECC error",
        "Data in the GPU's memory was lost; the row is taken out of use at the next reset and not before.",
        ("nvidia-smi -q -d ECC,ROW_REMAPPER", "dmesg | grep -i xid"),
        Remedy(
            "Drain the node, reset the GPU, run dcgmi diag -r 3; if it comes back, have the GPU replaced.",
            commands=("nvidia-smi --gpu-reset -i INDEX",),
            impact=Impact.RESTART_ENGINE,
        ),
    ),
    "busy": _Refusal(
        "compute mode",
        "a GPU was busy or unavailable for a new context",
        "Its compute mode allows one process (Exclusive_Process) and another has it, or none (Prohibited).",
        ("nvidia-smi --query-gpu=index,compute_mode --format=csv", "nvidia-smi --query-compute-apps=pid,gpu_uuid --format=csv"),
        Remedy(
            "Give the program the GPU that is meant for it (CUDA_VISIBLE_DEVICES), or end the one that holds it.",
            commands=("fuser -v /dev/nvidia*",),
            impact=Impact.RESTART_ENGINE,
        ),
    ),
    "no-device": _Refusal(
        "GPUs of the program",
        "a program found no GPU",
        "None is visible to it: CUDA_VISIBLE_DEVICES is empty or names others, the container was started without them, "
        "or the driver does not answer.",
        ("nvidia-smi -L", "echo $CUDA_VISIBLE_DEVICES", "ls -l /dev/nvidia*"),
        Remedy(
            "Make the GPU visible to the program: CUDA_VISIBLE_DEVICES, and --gpus for a container.",
            commands=("docker run --gpus all ...",),
            impact=Impact.RESTART_ENGINE,
        ),
    ),
}  # fmt: skip


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    # Of one object the first word speaks: what came after is mostly its consequence.
    kinds: dict[str, list[CudaRefused]] = {}
    for refused in node.all(CudaRefused):
        kinds.setdefault(refused.kind, []).append(refused)
    for kind, found in kinds.items():
        refusal = _REFUSALS[kind]
        times = f", {len(found)} times" if len(found) > 1 else ""
        yield Verdict(
            Status.FAIL,
            refusal.subject,
            f"{refusal.summary}: {found[0].words}{times}",
            refusal.cause,
            tuple(fact.quote for fact in found[:4]),
            refusal.verify,
            refusal.remedy,
        )


CHECK = NodeCheck(
    id="PD-GPU-009",
    topic="gpu.health",
    title="CUDA refuses a program",
    severity=Severity.CRITICAL,
    tools=("journalctl",),
    sources=(
        "CUDA Runtime API, 6.1 Data types, cudaError",
        "NVIDIA CUDA Compatibility guide",
        "https://github.com/vllm-project/vllm/issues/5222",
    ),
    need=Need.GPU,
    silence_passes=True,
    judge=judge,
)
