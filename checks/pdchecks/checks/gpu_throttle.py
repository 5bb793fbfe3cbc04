"""GPUs that the driver or the board slows down for heat or for want of power."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.gpus import Device, devices
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# --query-gpu's names, and what each means.
_REASONS = {
    "clocks_event_reasons.hw_thermal_slowdown": "the board slows it down for heat",
    "clocks_event_reasons.hw_power_brake_slowdown": "the server's power brake slows it down",
    "clocks_event_reasons.sw_thermal_slowdown": "the driver slows it down for heat",
}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for device in devices(node):
        told = [field for field in _REASONS if device.known(field) is not None]
        if told:
            yield _judge(device, told)


def _judge(device: Device, told: list[str]) -> Verdict:
    active = [field for field in told if device.known(field) == "Active"]
    subject, quotes = f"{device.name} clocks", device.quote(*told)
    if not active:
        return Verdict(Status.PASS, subject, "not slowed down for heat or power", quotes=quotes)
    power = active == ["clocks_event_reasons.hw_power_brake_slowdown"]
    return Verdict(
        Status.WARN,
        subject,
        "; ".join(_REASONS[field] for field in active),
        "A power supply failed or the server's budget is used up: it pulls the brake line of every GPU, which then run at a "
        "fraction of their clock."
        if power
        else "Too little air, a fan that stands, dust, a hot room, or a loose heat sink. Prefill takes the full clock, and is "
        "what becomes slow.",
        quotes,
        ("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER", "ipmitool sdr type Fan", "ipmitool sdr type 'Power Supply'"),
        Remedy(
            "Look at power supplies and the server's power cap."
            if power
            else "Let the fans run faster and look at what stands in the air's way; compare with the neighbour GPUs.",
            commands=("nvidia-smi --query-gpu=index,temperature.gpu,clocks.sm,power.draw --format=csv",),
        ),
    )


CHECK = NodeCheck(
    id="PD-GPU-010",
    topic="gpu.health",
    title="GPU slowed down for heat or power",
    severity=Severity.MEDIUM,
    tools=("nvidia-smi",),
    sources=("nvidia-smi(1), Clocks Event Reasons", "NVML, nvmlClocksEventReasons"),
    need=Need.GPU,
    on_demand=True,
    judge=judge,
)
