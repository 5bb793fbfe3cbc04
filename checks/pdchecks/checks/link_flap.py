"""Links that go down and come back."""

from collections.abc import Iterator
from itertools import pairwise

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.fabric import carries_rdma
from pdchecks.facts.log import CarrierLost
from pdchecks.facts.net import NicCounters
from pdchecks.facts.rdma import RdmaCounters
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known

_DAY_S = 86_400
# Interfaces that come and go with containers and bridges: their carrier says nothing of a cable.
_VIRTUAL = ("veth", "docker", "br-", "virbr", "cali", "flannel", "cni", "vnet", "tap", "tun", "lxc", "lxd", "wg")
_REMEDY = Remedy("Reseat or replace cable and module; compare with the switch's own log for that port; check FEC.")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    lost: dict[str, list[CarrierLost]] = {}
    for fact in node.all(CarrierLost):
        if not fact.interface.startswith(_VIRTUAL) and fact.interface != "lo":
            lost.setdefault(fact.interface, []).append(fact)
    for interface, facts in lost.items():
        if not (node.collected and carries_rdma(node, interface) is False):
            yield _from_log(interface, facts, policy)
    for counters in node.all(NicCounters):
        if "link_down_events_phy" in counters.values and carries_rdma(node, counters.netdev) is not False:
            downs = counters.values["link_down_events_phy"]
            yield _from_counter(counters.netdev, downs, "link_down_events_phy", counters, policy)
    for rdma in node.all(RdmaCounters):
        if "link_downed" in rdma.values:
            yield _from_counter(f"{rdma.device}/{rdma.port}", rdma.values["link_downed"], "link_downed", rdma, policy)


def _from_log(interface: str, facts: list[CarrierLost], policy: Policy) -> Verdict:
    link = policy.values.link
    raw, events = _busiest_day(facts, link.flap_debounce_s)
    counted = f"link was lost {_times(raw)} within a day, {_times(events)} when lines of one moment count as one"
    quotes = tuple(fact.quote for fact in facts)
    status = Status.FAIL if events >= link.flaps_per_day else Status.WARN if raw >= link.flaps_per_day else Status.INFO
    return Verdict(
        status,
        interface,
        f"{counted}; the policy allows fewer than {link.flaps_per_day}",
        "A marginal cable, module or port; or somebody reset it on purpose. Each loss stops every queue pair on the "
        "link.",
        quotes,
        (f"journalctl -k --since -1d | grep -w {interface}", f"ethtool -S {interface} | grep -w link_down_events_phy"),
        None if status is Status.INFO else _REMEDY,
    )


def _busiest_day(facts: list[CarrierLost], debounce_s: float) -> tuple[int, int]:
    """Losses and separate events in the day that has most of them; lines without a time all count, each by itself."""
    timed = sorted(seconds for fact in facts if (seconds := known(fact.seconds)) is not None)
    untimed = len(facts) - len(timed)
    best = (0, 0)
    begin = 0
    for end in range(len(timed)):
        while timed[end] - timed[begin] > _DAY_S:
            begin += 1
        day = timed[begin : end + 1]
        if len(day) > best[0]:
            best = (len(day), 1 + sum(b - a > debounce_s for a, b in pairwise(day)))
    return best[0] + untimed, best[1] + untimed


def _from_counter(name: str, downs: int, counter: str, fact: NicCounters | RdmaCounters, policy: Policy) -> Verdict:
    limit = policy.values.link.downs_in_life
    if downs <= limit:
        return Verdict(Status.PASS, name, f"{counter} is {downs} since the driver was loaded", quotes=(fact.quote,))
    return Verdict(
        Status.WARN,
        name,
        f"{counter} is {downs} since the driver was loaded; more than {limit} points to a bad link",
        "The counter never goes back, so that it does not tell when. Read it twice to see whether it still grows.",
        (fact.quote,),
        (f"ethtool -S {name} | grep {counter}" if isinstance(fact, NicCounters) else f"perfquery {fact.device}",),
        _REMEDY,
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


CHECK = NodeCheck(
    id="PD-LINK-005",
    topic="link.flap",
    title="Link goes down again and again",
    severity=Severity.HIGH,
    tools=("journalctl", "dmesg", "syslog", "ethtool"),
    sources=(
        "https://github.com/Azure/azurehpc-health-checks",
        "linux Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst",
    ),
    need=Need.RDMA,
    silence_passes=True,
    judge=judge,
)
