"""Nodes whose clocks differ, through the clock of whoever asked them all."""

from collections.abc import Iterator, Sequence

from pdchecks.check import FleetCheck, Verdict
from pdchecks.facts.host import ClockAsked
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# A node answers after its connection was set up: what is less than that may be the network's.
_SLACK_S = 30


def judge(nodes: Sequence[tuple[NodeFacts, Policy]]) -> Iterator[Verdict]:
    asked = [(node.name, fact) for node, _ in nodes for fact in node.all(ClockAsked)[:1]]
    if len(asked) < 2:
        return
    ahead = sorted(asked, key=lambda one: _lead(one[1]))
    # The clock in the middle is the fleet's: one wrong clock among many does not move it.
    middle_name, middle = ahead[(len(ahead) - 1) // 2]
    odd = [(name, fact) for name, fact in asked if abs(_lead(fact) - _lead(middle)) > _SLACK_S]
    if not odd:
        summary = f"the clocks of {len(asked)} nodes agree within {_SLACK_S} s"
        quotes = tuple(fact.quote for _, fact in asked)
        yield Verdict(Status.PASS, "clocks", summary, quotes=quotes, node=asked[0][0])
    for name, fact in odd:
        apart = _lead(fact) - _lead(middle)
        yield Verdict(
            Status.WARN,
            "clock",
            f"the clock of {name} is about {abs(apart)} s {'ahead of' if apart > 0 else 'behind'} that of {middle_name}",
            "Deadlines that a request carries from one node to the other are too long or over before they begin, "
            "credentials are not valid yet, and log lines of the two nodes stand in the wrong order.",
            (fact.quote, middle.quote),
            (f"date +%s   # on {name} and on {middle_name}", "chronyc tracking"),
            Remedy(
                "Let both nodes follow the same time servers, and step the wrong clock once.",
                commands=("timedatectl set-ntp true", "chronyc makestep"),
            ),
            node=name,
            peer=middle_name,
        )


def _lead(fact: ClockAsked) -> int:
    """Seconds by which the node's clock is ahead of the asker's, and the way there."""
    return fact.node_s - fact.asked_s


CHECK = FleetCheck(
    id="PD-TIME-002",
    topic="time.pair",
    title="Clocks of two nodes differ",
    severity=Severity.MEDIUM,
    tools=("date",),
    sources=("chrony.conf(5), makestep",),
    judge=judge,
)
