"""Modes of a GPU: compute, persistence, MIG. Settings of an administrator, not symptoms."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.converge import converge
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.gpus import Device, devices
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for device in devices(node):
        yield from _compute(device)
        yield from _persistence(device)
        yield from _mig(device)


def _compute(device: Device) -> Iterator[Verdict]:
    mode = device.known("compute_mode")
    subject, quotes = f"{device.name} compute mode", device.quote("compute_mode")
    if mode is None:
        return
    if mode == "Prohibited":
        yield Verdict(
            Status.FAIL,
            subject,
            "compute mode is Prohibited: no process can create a context",
            "An administrator closed this GPU with nvidia-smi -c.",
            quotes,
            ("nvidia-smi --query-gpu=index,compute_mode --format=csv",),
            Remedy("Open it again.", commands=(f"nvidia-smi -i {_index(device)} -c DEFAULT",), survives_reboot=False),
        )
    elif mode == "Default":
        yield Verdict(Status.PASS, subject, "compute mode is Default: several processes may share it", quotes=quotes)
    else:
        summary = (
            f"compute mode is {mode}: a second process is refused, which protects it; it says nothing of contexts left"
        )
        yield Verdict(Status.INFO, subject, summary, quotes=quotes)


def _persistence(device: Device) -> Iterator[Verdict]:
    mode = device.known("persistence_mode")
    subject, quotes = f"{device.name} persistence", device.quote("persistence_mode")
    if mode == "Enabled":
        yield Verdict(Status.PASS, subject, "persistence mode is on", quotes=quotes)
    elif mode == "Disabled":
        yield Verdict(
            Status.WARN,
            subject,
            "persistence mode is off: the driver lets go of the GPU whenever no process uses it",
            "The next start initialises it again, which takes seconds, and settings such as clocks are lost.",
            quotes,
            ("nvidia-smi --query-gpu=index,persistence_mode --format=csv", "systemctl status nvidia-persistenced"),
            converge(
                "gpu",
                "Run the persistence daemon.",
                "systemctl enable --now nvidia-persistenced",
                f"nvidia-smi -i {_index(device)} -pm 1",
            ),
        )


def _mig(device: Device) -> Iterator[Verdict]:
    now, pending = device.known("mig.mode.current"), device.known("mig.mode.pending")
    subject, quotes = f"{device.name} MIG", device.quote("mig.mode.current", "mig.mode.pending")
    if now and pending and now != pending:
        yield Verdict(
            Status.WARN,
            subject,
            f"MIG is {now} and will be {pending} after a reset of the GPU",
            "The mode was changed while the GPU was in use.",
            quotes,
            ("nvidia-smi --query-gpu=index,mig.mode.current,mig.mode.pending --format=csv",),
            Remedy("Reset the GPU when nothing runs on it.", commands=(f"nvidia-smi --gpu-reset -i {_index(device)}",)),
        )
    elif now == "Enabled":
        summary = "MIG is on: engines must name an instance, and memory and load of the whole GPU are not shown"
        yield Verdict(Status.INFO, subject, summary, quotes=quotes)


def _index(device: Device) -> str:
    return device.known("index") or device.known("uuid") or "INDEX"


CHECK = NodeCheck(
    id="PD-GPU-004",
    topic="gpu.mode",
    title="GPU in a mode that keeps engines out or slow",
    severity=Severity.MEDIUM,
    tools=("nvidia-smi",),
    sources=("nvidia-smi(1), COMPUTE MODE, PERSISTENCE MODE, MIG", "NVIDIA Driver Persistence documentation"),
    need=Need.GPU,
    judge=judge,
)
