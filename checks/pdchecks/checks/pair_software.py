"""Two nodes with other firmware, drivers or kernels: no fault, and the first thing to know when a pair misbehaves."""

from collections.abc import Iterator, Mapping, Sequence

from pdchecks.check import FleetCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.facts.gpu import Gpu
from pdchecks.facts.host import Kernel
from pdchecks.facts.net import NicDriver
from pdchecks.facts.rdma import RdmaDevice
from pdchecks.finding import Severity, Status
from pdchecks.firmware import card_of
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known

_Versions = Mapping[str, Mapping[str, Quote]]


def judge(nodes: Sequence[tuple[NodeFacts, Policy]]) -> Iterator[Verdict]:
    # Of more, the odd one is what matters (PD-FLEET-001).
    if len(nodes) != 2:
        return
    (one, policy), (other, _) = nodes
    here, there = _versions(one, policy), _versions(other, policy)
    for name in here:
        if name not in there:
            continue
        left, right = ", ".join(sorted(here[name])), ", ".join(sorted(there[name]))
        quotes = (next(iter(here[name].values())), next(iter(there[name].values())))
        same = left == right
        yield Verdict(
            Status.PASS if same else Status.INFO,
            name,
            f"{left} on both nodes" if same else f"{one.name} has {left}, {other.name} has {right}",
            ""
            if same
            else "Both may be right. Where only this pair misbehaves, the difference is the first suspect: defaults of "
            "congestion control, MTU negotiation and GPUDirect moved between releases.",
            quotes,
            node=one.name,
            peer=other.name,
        )


def _versions(node: NodeFacts, policy: Policy) -> _Versions:
    """By what it is a version of: the versions in use, each with the words that say so."""
    found: dict[str, dict[str, Quote]] = {}
    for device in node.all(RdmaDevice):
        version = known(device.firmware)
        card = card_of(version, device.part, policy.values.firmware) if version else None
        if version and card:
            found.setdefault(f"firmware of {card.family}", {}).setdefault(version, device.quote)
    for nic in node.all(NicDriver):
        driver, version = known(nic.driver), known(nic.version)
        if driver and version and driver.startswith(("mlx", "bnxt", "ice", "irdma")):
            found.setdefault(f"driver {driver}", {}).setdefault(version, nic.quote)
    for gpu in node.all(Gpu):
        shown = gpu.fields.get("driver_version")
        if shown is not None and not isinstance(shown, Unknown):
            found.setdefault("NVIDIA driver", {}).setdefault(shown, gpu.quote)
    for kernel in node.all(Kernel):
        found.setdefault("kernel", {}).setdefault(kernel.release, kernel.quote)
    return found


CHECK = FleetCheck(
    id="PD-FLEET-002",
    topic="fleet.pair",
    title="The two nodes of a pair run other versions",
    severity=Severity.LOW,
    tools=("ethtool", "ibv_devinfo", "uname", "nvidia-smi"),
    sources=("https://github.com/deepseek-ai/DeepEP/issues/38",),
    judge=judge,
)
