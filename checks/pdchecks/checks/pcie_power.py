"""What a card says of the power of its slot, and of its modules."""

import re
from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.log import KernelEvent
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_WATTS = re.compile(r"\((?P<watts>\d{1,4})W\)")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for event in node.all(KernelEvent):
        watts = _WATTS.search(event.detail)
        if event.kind == "pcie-power-sufficient":
            yield Verdict(Status.PASS, event.device, f"the slot {event.detail}", quotes=(event.quote,))
        elif event.kind == "pcie-power":
            shown = f"{watts['watts']} W" if watts else "too little power"
            yield Verdict(
                Status.INFO,
                event.device,
                f"the card reports insufficient power on its PCIe slot ({shown})",
                "The slot advertises this much in its capability register, which says little about what it delivers: "
                "the line appears on healthy machines (DGX Spark and HGX boards among them), and tools disagree "
                "whether it matters. It would, together with a link below its rate or a measured bandwidth far below "
                "it.",
                (event.quote,),
                (f"dmesg | grep {event.device}", "ib_write_bw -d <device> --report_gbits <peer>"),
            )
        elif event.kind == "module-error" and "ower" in event.detail:
            yield Verdict(
                Status.FAIL,
                f"{event.device} module",
                f"the module in the port was refused: {event.detail}",
                "The optical module or cable asks for more power than the port may give; it stays off.",
                (event.quote,),
                ("ethtool -m <netdev>",),
                Remedy(
                    "Use a module of a lower power class, or allow the class in the card's settings.",
                    impact=Impact.LINK_FLAP,
                ),
            )


CHECK = NodeCheck(
    id="PD-PCIE-002",
    topic="pcie.power",
    title="Slot or module power",
    severity=Severity.LOW,
    tools=("dmesg", "journalctl"),
    sources=(
        "linux drivers/net/ethernet/mellanox/mlx5/core/events.c",
        "https://github.com/imbue-ai/cluster-health",
        "https://github.com/leptonai/gpud",
    ),
    silence_passes=True,
    judge=judge,
)
