"""The plan of the active tests of a fleet: rounds of pairs, what is left out and why, and the load that it puts on."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from pdchecks.active.commands import (
    BANDWIDTH_S,
    ECHO_BYTES,
    PINGS,
    Line,
    ask_bandwidth,
    ask_echo,
    bandwidth,
    pings,
    serve_bandwidth,
    serve_echo,
)
from pdchecks.active.ends import End, ends
from pdchecks.active.marker import marked
from pdchecks.active.rounds import rounds
from pdchecks.evidence import Block
from pdchecks.facts.rdma import NoRdmaDevice
from pdchecks.nodefacts import NodeFacts
from pdchecks.pins import Rail, pins
from pdchecks.policy import Policy
from pdchecks.roce import traffic_class

DF_PING, BANDWIDTH, KV_ECHO = "PD-MTU-004", "PD-PERF-002", "PD-KV-003"
"""The checks that judge the tests."""
TESTS = {DF_PING: "ping -M do", BANDWIDTH: "ib_write_bw", KV_ECHO: "pdctl kv echo"}
# perftest's own default is the first one: each pair of a round has its own nodes, so only rails need different ones.
_FIRST_PORT = 18_515


@dataclass(frozen=True, slots=True)
class Talk:
    """Two commands that meet: `serve` on one node listens, then `ask` runs on the other."""

    server: str
    serve: Line
    client: str
    ask: Line


@dataclass(frozen=True, slots=True)
class Meeting:
    """All tests of one pair. probes: by node, what each does by itself."""

    nodes: tuple[str, str]
    probes: Mapping[str, Sequence[Line]]
    talks: Sequence[Talk]


@dataclass(frozen=True, slots=True)
class Plan:
    """left_out: node and block that says why a test is not run there. serving: nodes left alone, since an engine is active."""

    rounds: list[list[Meeting]] = field(default_factory=list)
    left_out: list[tuple[str, Block]] = field(default_factory=list)
    serving: tuple[str, ...] = ()
    load: tuple[str, ...] = ()

    @property
    def pairs(self) -> int:
        return sum(map(len, self.rounds))


def make(
    nodes: Sequence[NodeFacts],
    policy_of: Callable[[str], Policy],
    addresses: Mapping[str, str],
    checks: Collection[str],
    serving: Collection[str],
) -> Plan:
    """addresses: by node, by which it is reached. checks: IDs that are asked for. serving: nodes to leave alone."""
    left_out: list[tuple[str, Block]] = []
    for node in nodes:
        if node.name in serving:
            why = "not run, an engine is active on this node (--while-serving)"
            left_out += [(node.name, _absent(test, why)) for test in TESTS if test in checks]
    able = [node for node in nodes if node.name not in serving]
    without = {node.name for node in able if node.all(NoRdmaDevice)} if BANDWIDTH in checks else set()
    left_out += [(name, _absent(BANDWIDTH, "not run, there is no RDMA device on this node")) for name in without]
    made: list[list[Meeting]] = []
    for pairs in rounds(able):
        meetings: list[Meeting] = []
        for one, other in pairs:
            met = _meeting(one, other, policy_of, addresses, checks)
            if isinstance(met, str):
                left_out += [
                    (one.name, _absent(test, met, other.name)) for test in TESTS if test in checks and test != BANDWIDTH
                ]
            elif any(met.probes.values()) or met.talks:
                meetings.append(met)
        if meetings:
            made.append(meetings)
    return Plan(made, left_out, tuple(sorted(set(serving) & {node.name for node in nodes})), tuple(_load(made)))


def _absent(test: str, why: str, peer: str = "others") -> Block:
    return Block(marked(TESTS[test], peer), 126, f"pdctl: {why}")


def _meeting(
    one: NodeFacts,
    other: NodeFacts,
    policy_of: Callable[[str], Policy],
    addresses: Mapping[str, str],
    checks: Collection[str],
) -> Meeting | str:
    policies = (policy_of(one.name), policy_of(other.name))
    found = ends(one, other, policies, (addresses.get(one.name, ""), addresses.get(other.name, "")))
    if not found:
        return (
            f"not run, this node and {other.name} share no IPv4 subnet, nor are both reached by an address of their own"
        )
    probes: dict[str, list[Line]] = {one.name: [], other.name: []}
    if DF_PING in checks:
        for a, b in found:
            probes[one.name] += pings(a, other.name, b.address)
            probes[other.name] += pings(b, one.name, a.address)
    talks: list[Talk] = []
    if BANDWIDTH in checks:
        talks += _bandwidths(one, other, policies[0], found)
    if KV_ECHO in checks:
        a, b = found[0]
        talks.append(Talk(other.name, serve_echo(b, one.name), one.name, ask_echo(other.name)))
        talks.append(Talk(one.name, serve_echo(a, other.name), other.name, ask_echo(one.name)))
    return Meeting((one.name, other.name), probes, talks)


def _bandwidths(one: NodeFacts, other: NodeFacts, policy: Policy, found: list[tuple[End, End]]) -> list[Talk]:
    """Each rail, both ways, one after the other."""
    rails = [
        {rail.device: rail for rail in pins(node, policy, [peer]).rails} for node, peer in ((one, other), (other, one))
    ]
    byte, talks, port = traffic_class(policy.values.fabric.dscp), [], count(_FIRST_PORT)
    for a, b in found:
        mine, theirs = rails[0].get(a.device), rails[1].get(b.device)
        if mine is None or theirs is None:
            continue
        for (client, near, its), (server, far, its_own) in (
            ((one.name, a, mine), (other.name, b, theirs)),
            ((other.name, b, theirs), (one.name, a, mine)),
        ):
            number = next(port)
            serve = serve_bandwidth(_test(far, its_own, byte, number), far, number, client)
            ask = ask_bandwidth(_test(near, its, byte, number), server, far.address)
            talks.append(Talk(server, serve, client, ask))
    return talks


def _test(end: End, rail: Rail, byte: int, number: int) -> str:
    return bandwidth(end, rail.gid.index, rail.port, byte, number)


def _load(made: Sequence[Sequence[Meeting]]) -> list[str]:
    meetings = [meeting for one in made for meeting in one]
    at_once = max(map(len, made), default=0)
    probes = sum(len(lines) for meeting in meetings for lines in meeting.probes.values()) // 2
    tools = [talk.ask.tool for meeting in meetings for talk in meeting.talks]
    lines = [
        f"{len(meetings)} pair(s) in {len(made)} round(s), at most {at_once} at once; no node in two tests at a time"
    ]
    if probes:
        lines.append(f"DF pings: {probes} times {PINGS} packets of the largest size that must pass")
    if runs := tools.count("ib_write_bw"):
        lines.append(
            f"ib_write_bw: {runs} runs of {BANDWIDTH_S} s, each at the full rate of a link, in the policy's lossless class"
        )
    if runs := tools.count("pdctl"):
        lines.append(f"KV echo: {runs} transfers of {ECHO_BYTES >> 20} MiB over TCP")
    return lines
