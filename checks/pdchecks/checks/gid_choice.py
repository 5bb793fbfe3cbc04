"""Which GID a program should use, and whether the one that it was told to use can work."""

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address, ip_network

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.fabric import is_infiniband
from pdchecks.facts.host import Environment
from pdchecks.facts.log import GidInUse, QpFailure
from pdchecks.facts.rdma import EmptyGid, Gid
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.gids import Table, gid_variables, tables
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    chosen = [
        (name, int(value), environment.quote)
        for environment in node.all(Environment)
        for name, value in gid_variables(environment.values)
    ]
    subnets = policy.values.fabric.gid.subnets
    for table in tables(node):
        good = [gid for gid in table.usable if _inside(gid, subnets)]
        if not chosen:
            yield from _recommend(table, good)
        for name, index, quote in chosen:
            yield _judge_choice(table, good, name, index, quote)
    for used in node.all(GidInUse):
        good = [gid for table in tables(node) if table.device == used.device for gid in table.usable]
        yield _judge_use(used, [gid for gid in good if _inside(gid, subnets)])
    yield from _refused(node, subnets)


def _inside(gid: Gid, subnets: list[str]) -> bool:
    address = gid.ipv4 or gid.address
    return not subnets or any(ip_address(address) in ip_network(subnet, strict=False) for subnet in subnets)


def _recommend(table: Table, good: list[Gid]) -> Iterator[Verdict]:
    # Without one that can be recommended the table itself is the fault: PD-GID-002 says so.
    if good:
        indices = ", ".join(f"{gid.index} ({gid.ipv4 or gid.address})" for gid in good)
        yield Verdict(
            Status.INFO,
            table.name,
            f"RoCE v2 with a routable address: index {indices}",
            "This is the index that NCCL_IB_GID_INDEX, UCX_IB_GID_INDEX, MC_GID_INDEX or perftest's -x has to name, "
            "where the library does not choose by itself. Indices follow the order in which addresses were set and "
            "may move when a link goes down and comes back.",
            tuple(gid.quote for gid in good),
            (f"show_gids {table.device}",),
        )


def _judge_choice(table: Table, good: list[Gid], name: str, index: int, quote: Quote) -> Verdict:
    gid = next((gid for gid in table.gids if gid.index == index), None)
    advice = " or ".join(str(gid.index) for gid in good)
    quotes = (quote, *((gid.quote,) if gid else ()), *(other.quote for other in good if other is not gid))
    if gid in good:
        return Verdict(Status.PASS, table.name, f"{name}={index} is RoCE v2 with a routable address", quotes=quotes)
    if gid is None:
        empty = any(isinstance(slot, EmptyGid) and slot.index == index for slot in table.empty)
        what = "an empty slot of the table" if empty or table.whole else "not among the GIDs that were printed"
        why = "A queue pair with an empty source GID is refused with ENODEV or EINVAL."
    elif gid.link_local:
        what, why = (
            f"link-local ({gid.address})",
            "A link-local address is reached only inside its own Ethernet segment.",
        )
    elif gid.version == 1:
        what, why = "RoCE v1", "RoCE v1 is not IP: routers drop it, and a peer that speaks v2 does not answer."
    elif isinstance(gid.netdev, Unknown) and table.netdevs_printed:
        what, why = (
            "a GID of an interface of another network namespace",
            "The kernel answers ENODEV where the GID's interface is not in the namespace of the process.",
        )
    else:
        what, why = (
            f"{gid.ipv4 or gid.address}, which the policy does not take for RoCE",
            "Other subnets are not wired for it.",
        )
    return Verdict(
        Status.FAIL if advice or gid is not None else Status.WARN,
        table.name,
        f"{name}={index} is {what}" + (f"; use {advice}" if advice else ""),
        why,
        quotes,
        (f"show_gids {table.device}", f"cat /sys/class/infiniband/{table.device}/ports/{table.port}/gids/{index}"),
        Remedy(
            f"Set {name}={advice}, or unset it where the library finds a RoCE v2 GID by itself (NCCL does since 2.21)."
            if advice
            else "Give the interface an IPv4 address, so that a RoCE v2 GID of it appears, and name that GID's index.",
            commands=(f"export {name}={good[0].index}",) if good else (),
            survives_reboot=False,
        ),
    )


def _refused(node: NodeFacts, subnets: list[str]) -> Iterator[Verdict]:
    """Queue pairs that a library could not connect from a link-local GID; one that is made from a MAC is Ethernet's."""
    seen: set[str] = set()
    for failure in node.all(QpFailure):
        device = known(failure.device) or "queue pair"
        try:
            address = IPv6Address(known(failure.local_gid) or "::")
        except ValueError:
            continue
        from_mac = address.packed[11:13] == b"\xff\xfe"
        if not (address.is_link_local and from_mac) or device in seen or is_infiniband(node, device):
            continue
        seen.add(device)
        good = [gid for table in tables(node) if table.device == device for gid in table.usable]
        use = GidInUse(
            quote=failure.quote, program="the program", device=device, index=Unknown("not read"), address=address
        )
        yield _judge_use(use, [gid for gid in good if _inside(gid, subnets)])


def _judge_use(used: GidInUse, good: list[Gid]) -> Verdict:
    at = "" if isinstance(used.index, Unknown) else f" (index {used.index})"
    address = used.address.ipv4_mapped or used.address
    said = f"{used.program} sends from {address}{at}"
    if not used.address.is_link_local:
        return Verdict(Status.PASS, used.device, said, quotes=(used.quote,))
    advice = " or ".join(str(gid.index) for gid in good)
    return Verdict(
        Status.FAIL,
        used.device,
        f"{said}, which is link-local" + (f"; use {advice}" if advice else ""),
        "A link-local address is reached only inside its own Ethernet segment; connections to other subnets time out.",
        (used.quote, *(gid.quote for gid in good)),
        (f"show_gids {used.device}",),
        Remedy(
            "Let the program take the GID of a routable IPv4 address: NCCL_IB_GID_INDEX for NCCL (since 2.21 it finds one "
            "by itself), UCX_IB_GID_INDEX for UCX, MC_GID_INDEX for Mooncake.",
            commands=(f"export MC_GID_INDEX={good[0].index} NCCL_IB_GID_INDEX={good[0].index}",)
            if good
            else (f"show_gids {used.device} | grep v2",),
            survives_reboot=False,
        ),
    )


CHECK = NodeCheck(
    id="PD-GID-001",
    topic="gid.choice",
    title="Chosen GID cannot carry RoCE v2 between hosts",
    severity=Severity.HIGH,
    tools=("show_gids", "ibv_devinfo", "infiniband"),
    sources=("https://github.com/NVIDIA/nccl/issues/769", "https://github.com/NVIDIA/nccl/issues/551"),
    need=Need.ROCE,
    judge=judge,
)
