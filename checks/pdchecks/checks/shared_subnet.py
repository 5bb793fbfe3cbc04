"""Several RoCE interfaces in one subnet, which answer for each other unless the kernel is told not to."""

from collections.abc import Iterator
from ipaddress import ip_interface

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.fabric import carries_rdma, netdevs
from pdchecks.facts.host import Sysctl
from pdchecks.facts.net import Netdev
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    if not netdevs(node):
        return
    subnets: dict[str, list[Netdev]] = {}
    for netdev in node.all(Netdev):
        if carries_rdma(node, netdev.name):
            for address in netdev.addresses:
                try:
                    interface = ip_interface(address)
                except ValueError:
                    continue
                if interface.version == 4 and "/" in address:
                    subnets.setdefault(str(interface.network), []).append(netdev)
    settings = {fact.key: fact for fact in node.all(Sysctl)}
    for subnet, members in subnets.items():
        names = sorted({member.name for member in members})
        if len(names) > 1:
            yield from _settings(subnet, names, members, settings, policy)


def _settings(
    subnet: str, names: list[str], members: list[Netdev], settings: dict[str, Sysctl], policy: Policy
) -> Iterator[Verdict]:
    wrong: list[str] = []
    seen = False
    for short in ("arp_ignore", "arp_announce"):
        key = f"net.ipv4.conf.all.{short}"
        fact = settings.get(key)
        value = None if fact is None else known(fact.value)
        if value is None:
            continue
        seen = True
        if value != str(policy.values.sysctl.get(key, value)):
            wrong.append(f"{key} = {value}")
    if not seen:
        return
    quotes = tuple(member.quote for member in members)
    listed = ", ".join(names)
    if not wrong:
        summary = f"{listed} share {subnet}, and ARP is kept to each interface"
        yield Verdict(Status.PASS, f"subnet {subnet}", summary, quotes=quotes)
        return
    yield Verdict(
        Status.WARN,
        f"subnet {subnet}",
        f"{listed} share {subnet}, and {', '.join(wrong)}: each answers ARP for the others",
        "Linux answers for any of its addresses on any interface: peers then send to the wrong rail's MAC address.",
        quotes,
        ("sysctl net.ipv4.conf.all.arp_ignore net.ipv4.conf.all.arp_announce",),
        Remedy("Let each interface answer for its own address only.", role="sysctl", tags=("sysctl",)),
    )


CHECK = NodeCheck(
    id="PD-ROUTE-002",
    topic="route.rail",
    title="Rails in one subnet answer for each other",
    severity=Severity.HIGH,
    tools=("ip", "sysctl"),
    sources=("linux Documentation/networking/ip-sysctl.rst, arp_ignore and arp_announce",),
    need=Need.RDMA,
    on_demand=True,
    judge=judge,
)
