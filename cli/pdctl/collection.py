"""Looks at nodes: runs the collector on each of them, and says of each what it printed or why it did not."""

import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from pdchecks.collector import INTERVAL_S, script
from pdchecks.evidence import Evidence, own_blocks, print_blocks, read_blocks
from pdchecks.finding import Incomplete
from pdchecks.policy import Policy
from pdctl.evidence_source import Source
from pdctl.inventory import Host, Inventory
from pdctl.reach.fleet import run_everywhere
from pdctl.reach.local import run_local
from pdctl.reach.outcome import LATE, Outcome, Reached
from pdctl.reach.ssh_target import SshTarget, ssh_target

_LACKS = "pdctl: "
_END = "=== cmd: pdctl-collect end"
_TOOLS = "install the node's base system (coreutils, grep, sed)"


@dataclass(frozen=True, slots=True)
class Collected:
    """way: how the node was reached, in words. text: what its collector printed, undecodable bytes as surrogates.

    incomplete: why the evidence is not whole, or None.
    """

    node: str
    way: str
    text: str
    incomplete: Incomplete | None

    @property
    def evidence(self) -> Evidence | None:
        """What a node printed is its own, whatever it says about names. None where it printed no block."""
        blocks = own_blocks(self.text)
        return Evidence(self.node, tuple(blocks)) if blocks else None


def collect(
    inventory: Inventory | None,
    policy_of: Callable[[str], Policy],
    *,
    connect_s: float,
    deadline_s: float,
    interval_s: int = INTERVAL_S,
) -> list[Collected]:
    """Of every node of the inventory, in its order, or of this host. interval_s: between two readings of counters."""
    if inventory is None:
        name = platform.node() or "localhost"
        outcomes = [run_local(name, _asked(script(policy_of(name), interval_s, deadline_s)), deadline_s)]
        ways = {name: "local"}
    else:
        scripts = {host.name: script(policy_of(host.name), interval_s, deadline_s) for host in inventory}
        ways = {host.name: _way(host) for host in inventory}
        outcomes = run_everywhere(
            inventory.hosts,
            lambda host: _asked(scripts[host.name]),
            connect_s=connect_s,
            deadline_s=deadline_s,
            done=_tell if len(inventory) > 1 else lambda outcome: None,
        )
    return [Collected(outcome.node, ways[outcome.node], outcome.output, _incomplete(outcome)) for outcome in outcomes]


def _asked(script: str) -> str:
    """The script with the time of this machine, when a node's turn has come."""
    return f"asked={int(time.time())}\n{script}"


def from_source(source: Source) -> list[Collected]:
    """What was collected before, to be kept anew: of each node in the words of `Collected`."""
    missing = {each.node: each for each in source.incomplete}
    there = [
        Collected(each.node, "from files", print_blocks(each.blocks), missing.pop(each.node, None))
        for each in source.evidence
    ]
    return [*there, *(Collected(each.node, "from files", "", each) for each in missing.values())]


def _incomplete(outcome: Outcome) -> Incomplete | None:
    if not isinstance(outcome, Reached):
        return Incomplete(outcome.node, outcome.reason, outcome.hint)
    blocks = read_blocks(outcome.output)
    if not blocks:
        return Incomplete(outcome.node, "the collector printed no evidence", "see what `sh -s` is on that node")
    if blocks[0].rc == 127 and blocks[0].output.startswith(_LACKS):
        return Incomplete(outcome.node, blocks[0].output.removeprefix(_LACKS), _TOOLS)
    if blocks[-1].command != "pdctl-collect end":
        return Incomplete(outcome.node, "the collector stopped before its end", LATE)
    return None


def _way(host: Host) -> str:
    if host.connection == "local":
        return "local"
    target = ssh_target(host)
    return " through ".join(["ssh " + _end(target), *(_end(jump) for jump in reversed(target.jump))])


def _end(target: SshTarget) -> str:
    return f"{target.user}@{target.host} port {target.port}"


def _tell(outcome: Outcome) -> None:
    # Why a node could not be looked at stands once, in the report.
    if isinstance(outcome, Reached) and _END in outcome.output:
        print(f"{outcome.node}: looked", file=sys.stderr, flush=True)
