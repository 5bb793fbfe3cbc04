"""Queue pairs that could not be connected, and what the errno means."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.facts.log import DevicesInUse, QpFailure
from pdchecks.facts.perftest import PerftestRun
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known

_UNNAMED = "(not named)"
# errno -> short meaning, cause, remedy. linux drivers/infiniband/core/{verbs,addr,cma}.c: RTR resolves the peer's MAC.
_MEANING: dict[int, tuple[str, str, str]] = {
    110: (
        "Connection timed out",
        "To become ready to receive, the kernel must resolve the peer's MAC address: no answer came. The peer's GID "
        "cannot be reached from this one: no route between the two subnets, a rail-only fabric on which NIC i "
        "reaches only NIC i, another VLAN, or a link-local GID beyond its segment.",
        "Ping the remote address out of this interface. On a rail-only fabric keep each rail to itself "
        "(NCCL_CROSS_NIC=0); otherwise give each rail a route to the others, and choose a GID of the subnet that the "
        "peer is in.",
    ),
    101: (
        "Network is unreachable",
        "The kernel has no route from the address of this GID to the peer's: with one subnet a rail, each rail needs "
        "its own routing table and rule.",
        "Add `ip rule` and a table for the source address of this rail, persistently, and look again with ip route "
        "get.",
    ),
    113: (
        "No route to host",
        "The peer's MAC address could not be resolved: nobody answered the neighbour solicitation on this interface.",
        "Ping the remote address out of this interface and look at its neighbour entry.",
    ),
    19: (
        "No such device",
        "The source GID has no network interface in the network namespace of the process, its slot is empty, or an "
        "Ethernet device was addressed as if it were InfiniBand, by LID and without a GID. The card itself is not "
        "missing.",
        "Choose a RoCE v2 GID index that show_gids lists inside this container, or give the container the interface.",
    ),
    22: (
        "Invalid argument",
        "An attribute does not fit the port: an empty or foreign GID index, RoCE v1 against v2, a path MTU above the "
        "active MTU, or access flags that the device does not know.",
        "Compare GID index, RoCE version and MTU with show_gids and ibv_devinfo on both nodes.",
    ),
    12: (
        "Cannot allocate memory",
        "The device or the locked-memory limit is exhausted.",
        "Look at ulimit -l of the process and at the kernel log for limits exceeded.",
    ),
    111: (
        "Connection refused",
        "The peer's program does not listen, or refused the connection.",
        "Check that the peer runs and listens on this address.",
    ),
    95: ("Operation not supported", "The device does not know this kind of queue pair.", "Use another transport."),
    93: ("Protocol not supported", "The device does not know this kind of queue pair.", "Use another transport."),
}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    groups: dict[tuple[str, int | None], list[QpFailure]] = {}
    for fact in node.all(QpFailure):
        groups.setdefault((known(fact.device) or _UNNAMED, known(fact.errno)), []).append(fact)
    # A line without a device or an errno adds nothing beside one that names them.
    named = {errno for device, errno in groups if device != _UNNAMED}
    if not groups:
        for run in node.all(PerftestRun):
            if run.averages:
                yield Verdict(Status.PASS, run.device, f"{run.tool} connected its queue pairs", quotes=(run.quote,))
    for (device, errno), facts in groups.items():
        if device == _UNNAMED and errno in named:
            continue
        yield _verdict(node, device, errno, facts)


def _verdict(node: NodeFacts, device: str, errno: int | None, facts: list[QpFailure]) -> Verdict:
    first = facts[0]
    chosen = [used for used in node.all(DevicesInUse) if used.devices]
    subject = "queue pair" if device == _UNNAMED else device
    words, cause, remedy = _MEANING.get(
        errno or 0, (first.words, "The reason stands in the kernel log, if anywhere.", "")
    )
    where = "" if isinstance(first.transition, Unknown) else f" ({first.transition})"
    between = (
        ""
        if isinstance(first.local_gid, Unknown) or isinstance(first.remote_gid, Unknown)
        else f" from {first.local_gid} to {first.remote_gid}"
    )
    what = f"errno {errno} {words}" if errno is not None else words or "the line names no errno"
    listed = f" Devices in use: {', '.join(chosen[0].devices)} ({chosen[0].layer})." if chosen else ""
    listed += (
        f" The program found its peer over {chosen[0].bootstrap}, which may be another network."
        if chosen and chosen[0].bootstrap
        else ""
    )
    local = known(first.local_gid) or "<local address>"
    remote = known(first.remote_gid) or "<peer address>"
    quotes: tuple[Quote, ...] = tuple(dict.fromkeys([*(f.quote for f in facts), *(c.quote for c in chosen)]))
    return Verdict(
        Status.FAIL,
        subject,
        f"a queue pair could not be connected{between}{where}: {what}; {len(facts)} such "
        f"line{'s' if len(facts) > 1 else ''}",
        f"{cause}{listed}",
        quotes,
        (
            f"ip route get {_bare(remote)} from {_bare(local)}",
            f"ping -c 3 -I {_bare(local)} {_bare(remote)}",
            f"show_gids {subject if device != _UNNAMED else ''}".strip(),
        ),
        Remedy(remedy, survives_reboot=False) if remedy else None,
    )


def _bare(gid: str) -> str:
    """The IPv4 address that a GID wraps."""
    return gid.removeprefix("::ffff:") if "." in gid else gid


CHECK = NodeCheck(
    id="PD-RDMA-001",
    topic="rdma.qp",
    title="Queue pair could not be connected",
    severity=Severity.CRITICAL,
    tools=("NCCL, UCX or Mooncake log",),
    sources=(
        "https://github.com/NVIDIA/nccl/issues/2013",
        "https://github.com/NVIDIA/nccl/issues/551",
        "linux drivers/infiniband/core/addr.c",
    ),
    on_demand=True,
    judge=judge,
)
