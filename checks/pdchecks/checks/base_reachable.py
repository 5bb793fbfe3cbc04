"""Neighbour entries that are taken for reachable only for moments: a misread unit that costs probes and cures nothing."""

import re
from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.converge import kernel_parameters
from pdchecks.facts.host import Sysctl
from pdchecks.finding import Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown

_KEY = re.compile(r"net\.ipv[46]\.neigh\.(?P<interface>.+)\.base_reachable_time(?P<ms>_ms)?")
_POLICY_KEY = "net.ipv4.neigh.default.base_reachable_time_ms"


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    good: list[Sysctl] = []
    for fact in node.all(Sysctl):
        match = _KEY.fullmatch(fact.key)
        if match is None:
            continue
        if isinstance(fact.value, Unknown):
            yield Verdict(
                Status.UNKNOWN,
                fact.key,
                f"{fact.key} cannot be seen here: {fact.value.reason}",
                "The kernel shows this key in the initial network namespace only; interfaces have their own.",
                (fact.quote,),
            )
        elif fact.value.isdecimal():
            # The older file of the same value counts in seconds.
            milliseconds = int(fact.value) * (1 if match["ms"] else 1000)
            if milliseconds >= policy.values.neighbour.reachable_floor_ms:
                good.append(fact)
            else:
                yield _short(fact, milliseconds, policy)
    if good:
        interfaces = f"{good[0].key} is {good[0].value}" if len(good) == 1 else f"{len(good)} interfaces keep theirs"
        yield Verdict(
            Status.PASS, "reachable time", f"{interfaces} at or above the policy's floor", quotes=(good[0].quote,)
        )


def _short(fact: Sysctl, milliseconds: int, policy: Policy) -> Verdict:
    wanted = policy.values.sysctl.get(_POLICY_KEY) or policy.values.neighbour.reachable_floor_ms
    return Verdict(
        Status.FAIL,
        fact.key,
        f"{fact.key} is {milliseconds} ms; the policy wants {wanted} ms",
        "The unit is milliseconds, and the kernel rounds up to its tick: 1 reads back as one tick, not as a second. "
        "Each entry goes stale at once and is probed again. It cures no RoCE latency: a connected queue pair holds "
        "the peer's MAC and asks no neighbour table.",
        (fact.quote,),
        (f"sysctl {fact.key}", "ip -s neigh show"),
        kernel_parameters("Set it back; the interface's own value too.", {fact.key: wanted}),
    )


CHECK = NodeCheck(
    id="PD-ARP-001",
    topic="arp.base-reachable",
    title="Neighbour reachable time too short",
    severity=Severity.MEDIUM,
    tools=("sysctl",),
    sources=("linux Documentation/networking/ip-sysctl.rst", "linux net/core/neighbour.c, neigh_rand_reach_time"),
    judge=judge,
)
