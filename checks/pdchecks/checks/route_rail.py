"""Routes that leave by another rail than they should, or that do not exist."""

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address, ip_interface

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.log import QpFailure
from pdchecks.facts.net import Netdev, Route
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known

_UNREACHABLE = {101: "Network is unreachable", 113: "No route to host"}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for route in node.all(Route):
        yield from _route(node, route)
    for failure in node.all(QpFailure):
        yield from _failure(failure)


def _route(node: NodeFacts, route: Route) -> Iterator[Verdict]:
    verify = (f"ip route get {route.destination}" + (f" from {route.source}" if route.source else ""), "ip rule")
    subject = f"route to {route.destination}" + (f" from {route.source}" if route.source else "")
    if isinstance(route.netdev, Unknown):
        yield Verdict(
            Status.FAIL, subject, f"{route.netdev.reason}", _NO_ROUTE, (route.quote,), verify, _table(route.source)
        )
        return
    owner = _owner(node, route.source)
    wanted = (owner[0] if owner else "") or route.asked
    if not wanted:
        return
    if route.netdev in (wanted, "lo") or wanted == route.source:
        summary = f"leaves by {route.netdev}, the rail of its source"
        yield Verdict(Status.PASS, subject, summary, quotes=(route.quote,))
        return
    yield Verdict(
        Status.FAIL,
        subject,
        f"leaves by {route.netdev}, but its source belongs to {wanted}",
        "The kernel routes by destination only: answers and address resolution go out by another rail, where switch "
        "and peer expect this source no more than a wrong cable.",
        (route.quote, *((owner[1].quote,) if owner else ())),
        verify,
        _table(route.source),
    )


_NO_ROUTE = (
    "The kernel has no way from this source to that address. With one subnet a rail each rail needs its own routing "
    "table and a rule for its source address; on a rail-only fabric other rails cannot be reached at all."
)


def _table(source: str) -> Remedy:
    address = source or "<source address>"
    return Remedy(
        "Give each rail its own table and a rule, in the node's network configuration; on a rail-only fabric keep "
        "each rail to itself (NCCL_CROSS_NIC=0).",
        commands=(
            f"ip rule add from {address} table <n>",
            "ip route add default via <gateway of this rail> dev <netdev> table <n>",
        ),
        survives_reboot=False,
    )


def _owner(node: NodeFacts, source: str) -> tuple[str, Netdev] | None:
    for netdev in node.all(Netdev):
        if source and any(address.partition("/")[0] == source for address in netdev.addresses):
            return netdev.name, netdev
    return None


def _failure(failure: QpFailure) -> Iterator[Verdict]:
    errno = known(failure.errno)
    local, remote = _ipv4(failure.local_gid), _ipv4(failure.remote_gid)
    if errno in _UNREACHABLE:
        where = f" from {local} to {remote}" if local and remote else ""
        yield Verdict(
            Status.FAIL,
            f"route to {remote}" if remote else "route of a queue pair",
            f"no route{where}: {_UNREACHABLE[errno]} (errno {errno})",
            _NO_ROUTE,
            (failure.quote,),
            (f"ip route get {remote or '<peer>'} from {local or '<local address>'}", "ip rule"),
            _table(local or ""),
        )
    elif errno == 110 and local and remote and not _near(local, remote):
        yield Verdict(
            Status.WARN,
            f"route to {remote}",
            f"{local} and {remote} stand in different subnets and do not reach each other (errno 110)",
            _NO_ROUTE,
            (failure.quote,),
            (f"ip route get {remote} from {local}", f"ping -c 3 -I {local} {remote}"),
            _table(local),
        )


def _ipv4(gid: str | Unknown) -> str | None:
    if isinstance(gid, Unknown):
        return None
    try:
        address = ip_address(gid)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else address
    return str(mapped) if mapped else None


def _near(one: str, other: str) -> bool:
    """Whether two addresses look like one subnet: a log prints no prefix, and rails are rarely wider than /24."""
    return ip_interface(f"{one}/24").network == ip_interface(f"{other}/24").network


CHECK = NodeCheck(
    id="PD-ROUTE-001",
    topic="route.rail",
    title="Traffic does not leave by its own rail",
    severity=Severity.HIGH,
    tools=("ip",),
    sources=("https://github.com/NVIDIA/nccl/issues/2013", "iproute2 ip-rule(8)"),
    need=Need.RDMA,
    on_demand=True,
    judge=judge,
)
