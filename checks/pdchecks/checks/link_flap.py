"""Links that go down and come back."""

from collections.abc import Iterator
from itertools import pairwise

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.counters import Reading, nic_readings, rdma_readings
from pdchecks.fabric import carries_rdma, made_by_software
from pdchecks.facts.log import CarrierLost
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known

_DAY_S = 86_400
_NIC, _RDMA = "link_down_events_phy", "link_downed"
# Interfaces that come and go with containers and bridges: their carrier says nothing of a cable.
_VIRTUAL = (
    "cilium",
    "vxlan",
    "dummy",
    "veth",
    "docker",
    "br-",
    "virbr",
    "cali",
    "flannel",
    "cni",
    "vnet",
    "tap",
    "tun",
    "lxc",
    "lxd",
    "wg",
)
_REMEDY = Remedy("Reseat or replace cable and module; compare with the switch's own log for that port; check FEC.")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    lost: dict[str, list[CarrierLost]] = {}
    for fact in node.all(CarrierLost):
        virtual = fact.interface.startswith(_VIRTUAL) or made_by_software(node, fact.interface)
        if not virtual and fact.interface != "lo":
            lost.setdefault(fact.interface, []).append(fact)
    for interface, facts in lost.items():
        if not (node.collected and carries_rdma(node, interface) is False):
            yield _from_log(interface, facts, policy)
    for nic in nic_readings(node):
        if _NIC in nic.values and carries_rdma(node, nic.name) is not False:
            yield _from_counter(nic, _NIC, f"ethtool -S {nic.name} | grep {_NIC}", policy)
    for rdma in rdma_readings(node):
        if _RDMA in rdma.values:
            yield _from_counter(rdma, _RDMA, f"perfquery {rdma.name.partition('/')[0]}", policy)


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


def _from_counter(reading: Reading, counter: str, verify: str, policy: Policy) -> Verdict:
    limit, downs = policy.values.link.downs_in_life, reading.values[counter]
    quotes = (reading.quote([counter]),)
    if reading.grown is not None and reading.grown.get(counter):
        return Verdict(
            Status.FAIL,
            reading.name,
            f"{counter} grew by {reading.grown[counter]} {reading.since}, to {downs}: the link goes down now",
            "The link is lost while the node is looked at: a cable, module or port that is about to fail, or somebody "
            "resets it on purpose.",
            quotes,
            (verify,),
            _REMEDY,
        )
    if downs <= limit:
        return Verdict(Status.PASS, reading.name, f"{counter} is {downs} since the driver was loaded", quotes=quotes)
    still = "" if reading.grown is None else f"; it did not grow {reading.since}"
    return Verdict(
        Status.WARN,
        reading.name,
        f"{counter} is {downs} since the driver was loaded{still}; more than {limit} points to a bad link",
        "The counter never goes back, so that it does not tell when. Read it again under load to see whether it grows.",
        quotes,
        (verify,),
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
