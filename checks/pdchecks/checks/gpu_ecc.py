"""GPU memory that went bad: uncorrectable ECC errors, rows waiting to be remapped, remapping that failed."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.gpus import Device, devices
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_VOLATILE = (
    "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.uncorrected.volatile.dram",
    "ecc.errors.uncorrected.volatile.sram",
)
_LIFETIME = (
    "ecc.errors.uncorrected.aggregate.total",
    "ecc.errors.uncorrected.aggregate.dram",
    "ecc.errors.uncorrected.aggregate.sram",
)
_ROWS = ("remapped_rows.failure", "remapped_rows.pending", "retired_pages.pending", "remapped_rows.uncorrectable")
_VERIFY = ("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT", "dcgmi diag -r 3")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for device in devices(node):
        shown = [field for field in (*_VOLATILE, *_LIFETIME, *_ROWS) if device.known(field) is not None]
        if shown:
            yield _device(device, shown)


def _device(device: Device, shown: list[str]) -> Verdict:
    quotes, subject = device.quote(*shown), f"{device.name} memory cells"
    volatile = max((device.number(field) or 0 for field in _VOLATILE), default=0)
    lifetime = max((device.number(field) or 0 for field in _LIFETIME), default=0)
    if _yes(device, "remapped_rows.failure"):
        return Verdict(
            Status.FAIL,
            subject,
            "a bad memory row could not be remapped",
            "The spare rows of its bank are used up; the next error there costs data again.",
            quotes,
            _VERIFY,
            Remedy("Drain the node and have the GPU replaced.", impact=Impact.REBOOT),
        )
    if _yes(device, "remapped_rows.pending") or _yes(device, "retired_pages.pending"):
        return Verdict(
            Status.WARN,
            subject,
            "bad memory waits for a reset to be taken out of use",
            "An uncorrectable error marked a row or page; until the GPU is reset it is still in use.",
            quotes,
            _VERIFY,
            _reset(device),
        )
    if volatile:
        return Verdict(
            Status.FAIL,
            subject,
            f"{volatile} uncorrectable ECC errors since the driver was loaded",
            "Data in GPU memory was lost; the program that read it was ended or computed with garbage.",
            quotes,
            _VERIFY,
            _reset(device),
        )
    if lifetime:
        summary = f"no uncorrectable ECC error since the driver was loaded; {lifetime} in the life of the GPU"
        return Verdict(Status.INFO, subject, summary, quotes=quotes)
    said = [
        text
        for fields, text in (
            ((*_VOLATILE, *_LIFETIME), "no uncorrectable ECC error"),
            (_ROWS, "no row waits to be remapped"),
        )
        if any(field in shown for field in fields)
    ]
    return Verdict(Status.PASS, subject, ", ".join(said), quotes=quotes)


def _yes(device: Device, field: str) -> bool:
    return (device.known(field) or "").lower() in ("yes", "1", "true")


def _reset(device: Device) -> Remedy:
    return Remedy(
        "Drain the node and reset the GPU, which remaps; then run a diagnosis. If it comes back, replace the GPU.",
        commands=(f"nvidia-smi --gpu-reset -i {device.known('index') or 'INDEX'}", "dcgmi diag -r 3"),
        impact=Impact.RESTART_ENGINE,
    )


CHECK = NodeCheck(
    id="PD-GPU-006",
    topic="gpu.health",
    title="GPU memory with uncorrectable errors",
    severity=Severity.CRITICAL,
    tools=("nvidia-smi",),
    sources=("NVIDIA GPU Memory Error Management", "nvidia-smi(1), ECC Errors, Remapped Rows"),
    need=Need.GPU,
    judge=judge,
)
