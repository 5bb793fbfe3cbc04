"""The NVIDIA driver does not answer: library and kernel module of two versions, a module not loaded, a GPU that is lost."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.facts.gpu import GpuQueryRefused
from pdchecks.facts.log import KernelEvent
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.gpus import devices
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True)
class _Fault:
    summary: str
    cause: str
    remedy: Remedy


_MISMATCH = _Fault(
    "the NVIDIA library and the loaded kernel module are of two versions",
    "The driver package was upgraded while the old module stayed loaded; every new CUDA process fails, running "
    "ones go on.",
    Remedy(
        "Unload the old module and load the new one, or reboot; hold the package back from automatic upgrades.",
        commands=("cat /proc/driver/nvidia/version", "modinfo -F version nvidia", "systemctl reboot"),
        impact=Impact.REBOOT,
    ),
)
_NOT_LOADED = _Fault(
    "the NVIDIA driver does not answer",
    "Its kernel module is not loaded: not built for this kernel, refused by Secure Boot, or kept out by nouveau.",
    Remedy(
        "Build and load the module for the running kernel.",
        commands=("dkms status", "modprobe nvidia", "dmesg | grep -iE 'nvrm|nouveau'"),
        impact=Impact.DRIVER_RELOAD,
    ),
)
_NO_DEVICE = _Fault(
    "the driver runs and finds no GPU",
    "The GPU failed to initialise, is bound to another driver (vfio-pci), or is not passed into this container.",
    Remedy(
        "See why it is missing.",
        commands=("lspci -nnk -d 10de:", "dmesg | grep -i nvrm"),
        impact=Impact.DRIVER_RELOAD,
    ),
)
_NO_LIBRARY = _Fault(
    "nvidia-smi finds no NVIDIA library",
    "The driver's user-space part is not installed here, or not mounted into this container.",
    Remedy(
        "Install the driver's libraries, or run the container with the NVIDIA runtime.",
        commands=("ldconfig -p | grep nvidia-ml", "docker run --gpus all ..."),
    ),
)
_LOST = _Fault(
    "the GPU is lost",
    "It no longer answers on the PCI bus; power, seating, heat or the GPU itself.",
    Remedy(
        "Drain the node and power it off and on; if it comes back, replace the GPU.",
        commands=("dmesg | grep -iE 'xid|fallen off'", "systemctl poweroff"),
        impact=Impact.REBOOT,
    ),
)
_NOT_INITIALISED = _Fault(
    "the driver could not initialise a GPU",
    "The GPU, its power or its firmware (GSP) failed at start-up, or the driver does not fit this GPU or kernel.",
    Remedy(
        "Power the node off and on; compare the driver with what the GPU needs; if it comes back, replace the GPU.",
        commands=("dmesg | grep -i nvrm", "cat /proc/driver/nvidia/version"),
        impact=Impact.REBOOT,
    ),
)
# Of the driver these say nothing: whoever asked may not know.
_NOT_TOLD = re.compile(r"insufficient permission", re.IGNORECASE)
_WORDS = (
    (re.compile(r"version mismatch", re.IGNORECASE), _MISMATCH),
    (re.compile(r"couldn't find lib|libnvidia-ml", re.IGNORECASE), _NO_LIBRARY),
    (re.compile(r"No devices were found", re.IGNORECASE), _NO_DEVICE),
    (re.compile(r"handle for GPU|GPU is lost|Unable to determine the device handle", re.IGNORECASE), _LOST),
    (re.compile(r"."), _NOT_LOADED),
)
_EVENTS = {"nvml-mismatch": _MISMATCH, "gpu-lost": _LOST, "gpu-init": _NOT_INITIALISED}
# NVIDIA's catalogue of XIDs: the GPU has fallen off the bus.
_FELL_OFF = "79"
# What stands in place of a value once the GPU no longer answers.
_DEAD = ("ERR!", "Unknown Error", "GPU is lost")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for query in node.all(GpuQueryRefused):
        if query.field:
            continue
        if _NOT_TOLD.search(query.words):
            yield Verdict(
                Status.UNKNOWN,
                "NVIDIA driver",
                f"the driver told nothing: {query.words}",
                "This user, or this container's device rules, may not open /dev/nvidiactl.",
                (query.quote,),
                ("ls -l /dev/nvidia*", "id"),
            )
        else:
            fault = next(fault for words, fault in _WORDS if words.search(query.words))
            yield _say(fault, "NVIDIA driver", f"{fault.summary}: {query.words}", (query.quote,))
    for event in node.all(KernelEvent):
        if event.kind == "gpu-lost" and _told_by_xid(node, event):
            continue
        if fault_of := _EVENTS.get(event.kind):
            subject = f"GPU {event.device}" if event.kind.startswith("gpu-") and event.device else "NVIDIA driver"
            yield _say(fault_of, subject, f"{fault_of.summary}: {event.detail}", (event.quote,))
    for device in devices(node):
        dead = [field for field, value in device.fields.items() if isinstance(value, Unknown) and _is_dead(value)]
        if dead:
            yield _say(
                _LOST, device.name, f"{device.name} gives errors in place of {', '.join(dead[:3])}", device.quote(*dead)
            )
        else:
            field = next(iter(device.fields), "")
            yield Verdict(Status.PASS, device.name, "the driver answers for it", quotes=device.quote(field))


def _told_by_xid(node: NodeFacts, lost: KernelEvent) -> bool:
    """The driver writes XID 79 and this line for the same event; the XID's own check speaks then."""
    gpu = lost.device.partition(".")[0].lower()
    return any(
        event.kind == "xid" and event.detail == _FELL_OFF and event.device.lower().startswith(gpu)
        for event in node.all(KernelEvent)
    )


def _is_dead(value: Unknown) -> bool:
    return value.reason.endswith(_DEAD)


def _say(fault: _Fault, subject: str, summary: str, quotes: tuple[Quote, ...]) -> Verdict:
    return Verdict(
        Status.FAIL, subject, summary, fault.cause, quotes, ("nvidia-smi", "dmesg | grep -i nvrm"), fault.remedy
    )


CHECK = NodeCheck(
    id="PD-GPU-007",
    topic="gpu.health",
    title="The NVIDIA driver does not answer",
    severity=Severity.CRITICAL,
    tools=("nvidia-smi", "dmesg"),
    sources=("nvidia-smi(1), RETURN VALUE", "NVIDIA open-gpu-kernel-modules, NVRM messages"),
    need=Need.GPU,
    judge=judge,
)
