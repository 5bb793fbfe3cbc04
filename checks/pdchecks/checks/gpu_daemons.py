"""Daemons that GPUs need: the fabric manager of NVSwitch machines, the persistence daemon, IMEX."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.host import Unit
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.gpus import Device, devices
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.units import GPU_DAEMONS

_WITHOUT = {
    "nvidia-fabricmanager.service": "On a machine with NVSwitch no CUDA program starts without it (error 802, system not yet "
    "initialized); its version must be the driver's.",
    "nvidia-persistenced.service": "The driver lets go of a GPU that no process uses, and initialises it anew at each start.",
    "nvidia-mps.service": "Clients of the multi-process service cannot start.",
    "nvidia-imex.service": "On machines whose NVLink goes beyond one node (GB200 NVL72) no GPU memory of another node can be "
    "mapped without it.",
}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for unit in node.all(Unit):
        if unit.name not in GPU_DAEMONS or unit.load == "not-found":
            continue
        if unit.active == "failed" or unit.load != "loaded":
            yield _failed(unit)
        elif unit.active == "active":
            yield Verdict(Status.PASS, unit.name, f"{unit.name} is active", quotes=(unit.quote,))
        else:
            summary = f"{unit.name} is installed and {unit.active or 'not running'}"
            yield Verdict(Status.INFO, unit.name, summary, _WITHOUT[unit.name], (unit.quote,))
    for device in devices(node):
        state = device.known("fabric.state")
        if state is not None:
            yield _registered(device, state)


def _registered(device: Device, state: str) -> Verdict:
    """Whether the fabric manager has told the GPU who its neighbours are."""
    status = device.known("fabric.status")
    subject, quotes = f"{device.name} fabric", device.quote("fabric.state", "fabric.status")
    if state == "Completed" and status in (None, "Success"):
        return Verdict(Status.PASS, subject, "registered with the fabric manager", quotes=quotes)
    return Verdict(
        Status.FAIL,
        subject,
        f"fabric state is {state}" + (f", status {status}" if status else ""),
        _WITHOUT["nvidia-fabricmanager.service"],
        quotes,
        ("nvidia-smi -q | grep -A4 Fabric", "systemctl status nvidia-fabricmanager"),
        Remedy(
            "Start the fabric manager of the driver's version; where it runs, read its journal for the link that fails.",
            commands=("systemctl restart nvidia-fabricmanager", "journalctl -b -u nvidia-fabricmanager"),
            impact=Impact.RESTART_ENGINE,
        ),
    )


def _failed(unit: Unit) -> Verdict:
    how = f" ({unit.result})" if unit.result and unit.result != "success" else ""
    return Verdict(
        Status.FAIL,
        unit.name,
        f"{unit.name} is {unit.load}, {unit.active}{how}",
        _WITHOUT[unit.name],
        (unit.quote,),
        (f"systemctl status {unit.name}", f"journalctl -b -u {unit.name}", "nvidia-smi"),
        Remedy(
            "Fix what its journal names; install the version that the driver has.",
            commands=(f"systemctl restart {unit.name}",),
            impact=Impact.RESTART_ENGINE,
        ),
    )


CHECK = NodeCheck(
    id="PD-GPU-008",
    topic="gpu.health",
    title="A daemon that GPUs need has failed",
    severity=Severity.HIGH,
    tools=("systemctl",),
    sources=(
        "NVIDIA Fabric Manager User Guide",
        "NVIDIA Driver Persistence documentation",
        "NVIDIA IMEX Service Guide",
    ),
    need=Need.GPU,
    judge=judge,
)
