"""The kernel's neighbour (ARP) table: full, nearly full, or too small for hosts times rails."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.converge import converge
from pdchecks.evidence import Quote
from pdchecks.facts.host import Sysctl
from pdchecks.facts.log import KernelEvent
from pdchecks.facts.net import Neighbour
from pdchecks.finding import Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown

# Above this the garbage collector is at work on every new entry; linux net/core/neighbour.c, neigh_alloc().
_HARD = "gc_thresh3"
_NEARLY_FULL = 0.9
_PREFIXES = ("net.ipv4.neigh.default.gc_thresh", "net.ipv6.neigh.default.gc_thresh")
_VERIFY = (
    "ip neigh show | wc -l",
    "sysctl net.ipv4.neigh.default.gc_thresh3",
    "dmesg | grep -i 'table overflow'",
)
_REMEDY = converge(
    "sysctl",
    "Raise gc_thresh1, gc_thresh2 and gc_thresh3 together; leave the reachable time alone.",
    "sysctl --system",
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    overflow = [event for event in node.all(KernelEvent) if event.kind == "neighbour-overflow"]
    limits = [fact for fact in node.all(Sysctl) if fact.key.startswith(_PREFIXES)]
    hard = [fact for fact in limits if fact.key.endswith(_HARD) and not isinstance(fact.value, Unknown)]
    if overflow:
        yield _overflowed(tuple(event.quote for event in overflow[:4]), hard, policy)
        return
    yield from _crowded(node, hard)
    for fact in limits:
        yield from _against_policy(fact, policy)


def _overflowed(quotes: tuple[Quote, ...], hard: list[Sysctl], policy: Policy) -> Verdict:
    wanted = policy.values.sysctl.get(f"{_PREFIXES[0]}3", "a larger value")
    now = ", ".join(f"{fact.key} is {fact.value}" for fact in hard) or "its hard limit is gc_thresh3"
    return Verdict(
        Status.FAIL,
        "neighbour table",
        f"the kernel refused new neighbours: the table overflowed; {now}, the policy wants {wanted}",
        "Every host and rail in one broadcast domain takes an entry. With gc_thresh3 entries in use, connections to "
        "further hosts fail at random with EINVAL or No buffer space available.",
        (*quotes, *(fact.quote for fact in hard)),
        _VERIFY,
        _REMEDY,
    )


def _crowded(node: NodeFacts, hard: list[Sysctl]) -> Iterator[Verdict]:
    entries = {(fact.address, fact.netdev) for fact in node.all(Neighbour) if "." in fact.address}
    for fact in hard:
        most = _number(fact)
        if fact.key.startswith("net.ipv4") and most and len(entries) >= most * _NEARLY_FULL:
            yield Verdict(
                Status.WARN,
                "neighbour table",
                f"{len(entries)} of at most {most} neighbours are in the table ({fact.key})",
                "A few more hosts, and the kernel refuses new neighbours.",
                (fact.quote,),
                _VERIFY,
                _REMEDY,
            )


def _against_policy(fact: Sysctl, policy: Policy) -> Iterator[Verdict]:
    wanted = policy.values.sysctl.get(fact.key)
    if wanted is None:
        return
    if isinstance(fact.value, Unknown):
        summary = f"{fact.key} cannot be seen here: {fact.value.reason}"
        yield Verdict(
            Status.UNKNOWN,
            fact.key,
            summary,
            "The kernel shows this key in the initial network namespace only.",
            (fact.quote,),
        )
        return
    now = _number(fact)
    if now is None:
        yield Verdict(Status.UNKNOWN, fact.key, f"{fact.key} is no number: {fact.value}", quotes=(fact.quote,))
    elif now >= int(wanted):
        yield Verdict(Status.PASS, fact.key, f"{fact.key} is {now}", quotes=(fact.quote,))
    else:
        yield Verdict(
            Status.WARN,
            fact.key,
            f"{fact.key} is {now}; the policy wants {wanted}",
            "The table has no room for hosts times rails of a larger fabric; new neighbours are refused when it is full.",
            (fact.quote,),
            _VERIFY,
            _REMEDY,
        )


def _number(fact: Sysctl) -> int | None:
    return int(fact.value) if isinstance(fact.value, str) and fact.value.isdecimal() else None


CHECK = NodeCheck(
    id="PD-NEIGH-001",
    topic="neigh.table",
    title="Neighbour table too small",
    severity=Severity.HIGH,
    tools=("/proc/sys", "sysctl", "dmesg"),
    sources=("https://github.com/hashicorp/serf/issues/263", "linux net/core/neighbour.c", "arp(7)"),
    judge=judge,
)
