"""Whether the transport is done by the card at all, or by the CPU."""

import re
from collections.abc import Iterator, Mapping

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.host import Environment
from pdchecks.facts.log import DevicesInUse
from pdchecks.facts.rdma import RdmaDevice, RdmaPort
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# UCX's transports (ucx_info -d) that never leave by an RDMA device.
_WITHOUT_RDMA = frozenset(
    {
        "tcp",
        "self",
        "sm",
        "shm",
        "posix",
        "sysv",
        "cma",
        "knem",
        "xpmem",
        "mm",
        "cuda",
        "cuda_copy",
        "cuda_ipc",
        "gdr_copy",
    }
)
_SOFTWARE = re.compile(r"(?:rxe|siw)_?\w*")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for used in node.all(DevicesInUse):
        yield _program(used)
    for environment in node.all(Environment):
        if told := _told_not_to(environment.values):
            yield _excluded(told, environment)
    facts: list[RdmaDevice | RdmaPort] = [*node.all(RdmaPort), *node.all(RdmaDevice)]
    for device, quote in {fact.device: fact.quote for fact in facts}.items():
        if _SOFTWARE.fullmatch(device):
            yield Verdict(
                Status.WARN,
                device,
                "RDMA is done in software on this device: every byte costs CPU",
                "rxe and siw speak the protocol in the kernel. No card offloads anything.",
                (quote,),
                ("rdma link show",),
                Remedy("Use the card's own RDMA device; load its driver.", commands=(f"rdma link delete {device}",)),
            )
        else:
            yield Verdict(
                Status.PASS, device, "a card's RDMA device: the transport is always in hardware", quotes=(quote,)
            )


def _told_not_to(values: Mapping[str, str]) -> str:
    """The setting by which a program is told to leave RDMA alone, as NAME=VALUE; empty where there is none."""
    if values.get("NCCL_IB_DISABLE", "").strip("\"' ") == "1":
        return "NCCL_IB_DISABLE=1"
    transports = values.get("UCX_TLS", "").strip("\"' ").lower()
    listed = [word for word in transports.split(",") if word]
    if listed and not transports.startswith("^") and all(word in _WITHOUT_RDMA for word in listed):
        return f"UCX_TLS={transports}"
    return ""


def _excluded(told: str, environment: Environment) -> Verdict:
    return Verdict(
        Status.WARN,
        f"environment ({told.partition('=')[0]})",
        f"{told} keeps the library from using RDMA",
        "Set once for a test and left, or meant for one node: with it the CPU copies every byte over TCP, whatever the card "
        "could do.",
        (environment.quote,),
        ("env | grep -E 'NCCL_IB_DISABLE|UCX_TLS'", "ibv_devinfo"),
        Remedy(
            f"Unset {told.partition('=')[0]} where the nodes have RDMA.",
            commands=(f"unset {told.partition('=')[0]}",),
            survives_reboot=False,
            impact=Impact.RESTART_ENGINE,
        ),
    )


def _program(used: DevicesInUse) -> Verdict:
    if used.layer != "Socket" and used.devices:
        listed = ", ".join(used.devices)
        return Verdict(
            Status.PASS, "communication library", f"uses {listed} ({used.layer or 'verbs'})", quotes=(used.quote,)
        )
    return Verdict(
        Status.FAIL,
        "communication library",
        f"uses TCP sockets ({', '.join(used.devices) or 'no device named'}) instead of RDMA"
        if used.layer == "Socket"
        else "found no RDMA device that it can use",
        "The library saw no verbs device: its plugin or libibverbs is missing in the container, /dev/infiniband is "
        "not there, NCCL_IB_DISABLE or NCCL_IB_HCA excludes it, or the port is down. The CPU then copies every byte, "
        "at high load and low rate, whatever the card could do.",
        (used.quote,),
        ("ibv_devinfo", "ls -l /dev/infiniband", "env | grep -E 'NCCL_(IB|NET|SOCKET)'"),
        Remedy(
            "Give the process /dev/infiniband, libibverbs with the card's provider, and unlimited locked memory; "
            "unset what excludes the device.",
            role="rdma",
            tags=("rdma",),
            impact=Impact.RESTART_ENGINE,
        ),
    )


CHECK = NodeCheck(
    id="PD-OFF-001",
    topic="offload.rdma",
    title="Transport runs on the CPU instead of the card",
    severity=Severity.HIGH,
    tools=("rdma", "ibv_devinfo", "ibstat", "infiniband"),
    sources=("nccl src/transport/net_ib.cc, net_socket.cc", "linux drivers/infiniband/sw"),
    need=Need.RDMA,
    judge=judge,
)
