"""The kernel's neighbour (ARP) table: full, nearly full, or too small for hosts times rails."""

from collections.abc import Iterator, Mapping

from pdchecks.check import NodeCheck, Verdict, mild
from pdchecks.converge import kernel_parameters
from pdchecks.evidence import Quote
from pdchecks.fabric import NO_RAILS, has_no_rails
from pdchecks.facts.host import Sysctl
from pdchecks.facts.log import KernelEvent
from pdchecks.facts.net import Neighbour, NeighbourCount
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown

# Above this the garbage collector is at work on every new entry; linux net/core/neighbour.c, neigh_alloc().
_HARD = "gc_thresh3"
_NEARLY_FULL = 0.9
_SUBJECT = "neighbour table"
_PREFIXES = ("net.ipv4.neigh.default.gc_thresh", "net.ipv6.neigh.default.gc_thresh")
_VERIFY = (
    "ip neigh show | wc -l",
    "sysctl net.ipv4.neigh.default.gc_thresh3",
    "dmesg | grep -i 'table overflow'",
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    overflow = [event for event in node.all(KernelEvent) if event.kind == "neighbour-overflow"]
    limits = [fact for fact in node.all(Sysctl) if fact.key.startswith(_PREFIXES)]
    hard = [fact for fact in limits if fact.key.endswith(_HARD) and not isinstance(fact.value, Unknown)]
    past = bool(overflow) and _is_past(node, overflow, hard, policy)
    if overflow and not past:
        yield _overflowed(tuple(event.quote for event in overflow[:4]), hard, policy)
        return
    if past:
        yield Verdict(
            Status.INFO,
            "earlier overflow",
            f"the table overflowed since the boot; now it has room: {_entries(node)} entries are in use",
            "The kernel's log keeps the line until the next boot.",
            tuple(event.quote for event in overflow[:4]),
        )
    yield from _crowded(node, hard, _remedy(policy))
    wanted = {key: int(value) for key, value in policy.values.sysctl.items() if value is not None and ".neigh." in key}
    for verdict in _against_policy([fact for fact in limits if fact.key in wanted], wanted, _remedy(policy)):
        yield mild(verdict, NO_RAILS) if has_no_rails(node) else verdict


def _remedy(policy: Policy) -> Remedy:
    thresholds = {
        key: value for key, value in policy.values.sysctl.items() if key.startswith(_PREFIXES) and value is not None
    }
    text = "Raise gc_thresh1, gc_thresh2 and gc_thresh3 together; leave the reachable time alone."
    return kernel_parameters(text, thresholds)


def _overflowed(quotes: tuple[Quote, ...], hard: list[Sysctl], policy: Policy) -> Verdict:
    wanted = policy.values.sysctl.get(f"{_PREFIXES[0]}3", "a larger value")
    now = ", ".join(f"{fact.key} is {fact.value}" for fact in hard) or "its hard limit is gc_thresh3"
    return Verdict(
        Status.FAIL,
        _SUBJECT,
        f"the kernel refused new neighbours: the table overflowed; {now}, the policy wants {wanted}",
        "Every host and rail in one broadcast domain takes an entry. With gc_thresh3 entries in use, connections to "
        "further hosts fail at random with EINVAL or No buffer space available.",
        (*quotes, *(fact.quote for fact in hard)),
        _VERIFY,
        _remedy(policy),
    )


def _is_past(node: NodeFacts, overflow: list[KernelEvent], hard: list[Sysctl], policy: Policy) -> bool:
    """Whether the whole node was seen, its limit is the policy's by now, and the table is far from that."""
    wanted = policy.values.sysctl.get(f"{_PREFIXES[0]}3")
    limit = next((_number(fact) for fact in hard if fact.key == f"{_PREFIXES[0]}3"), None)
    if not node.collected or wanted is None or limit is None or any("ndisc" in event.device for event in overflow):
        return False
    return limit >= int(wanted) and _entries(node) < limit * _NEARLY_FULL


def _entries(node: NodeFacts) -> int:
    listed = {(fact.address, fact.netdev) for fact in node.all(Neighbour) if "." in fact.address}
    return max([len(listed), *(fact.count for fact in node.all(NeighbourCount))])


def _crowded(node: NodeFacts, hard: list[Sysctl], remedy: Remedy) -> Iterator[Verdict]:
    counted = node.all(NeighbourCount)
    entries = _entries(node)
    for fact in hard:
        most = _number(fact)
        if fact.key.startswith("net.ipv4") and most and entries >= most * _NEARLY_FULL:
            yield Verdict(
                Status.WARN,
                _SUBJECT,
                f"{entries} of at most {most} neighbours are in the table ({fact.key})",
                "A few more hosts, and the kernel refuses new neighbours.",
                (fact.quote, *(count.quote for count in counted)),
                _VERIFY,
                remedy,
            )


def _against_policy(limits: list[Sysctl], wanted: Mapping[str, int], remedy: Remedy) -> Iterator[Verdict]:
    low = [fact for fact in limits if (now := _number(fact)) is not None and now < wanted[fact.key]]
    hidden = [fact for fact in limits if isinstance(fact.value, Unknown)]
    quotes = tuple(fact.quote for fact in limits)
    if low:
        live = ", ".join(f"{fact.key} is {fact.value}" for fact in low)
        yield Verdict(
            Status.WARN,
            _SUBJECT,
            f"{live}; the policy wants {', '.join(str(wanted[fact.key]) for fact in low)}",
            "The table has no room for hosts times rails of a larger fabric; when it is full, new neighbours are "
            "refused.",
            quotes,
            _VERIFY,
            remedy,
        )
    elif hidden:
        reason = hidden[0].value.reason if isinstance(hidden[0].value, Unknown) else ""
        yield Verdict(
            Status.UNKNOWN,
            _SUBJECT,
            f"{', '.join(fact.key for fact in hidden)} cannot be seen here: {reason}",
            "The kernel shows these keys in the initial network namespace only.",
            quotes,
        )
    elif limits:
        live = ", ".join(f"{fact.key} is {fact.value}" for fact in limits)
        yield Verdict(Status.PASS, _SUBJECT, live, quotes=quotes)


def _number(fact: Sysctl) -> int | None:
    return int(fact.value) if isinstance(fact.value, str) and fact.value.isdecimal() else None


CHECK = NodeCheck(
    id="PD-NEIGH-001",
    topic="neigh.table",
    title="Neighbour table too small",
    severity=Severity.HIGH,
    tools=("dmesg", "sysctl"),
    sources=("https://github.com/hashicorp/serf/issues/263", "linux net/core/neighbour.c", "arp(7)"),
    silence_passes=True,
    judge=judge,
)
