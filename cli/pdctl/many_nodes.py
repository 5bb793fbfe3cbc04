"""Judges many nodes at once, on as many processes as there are cores: readers and checks are all computation."""

import gc
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context

from pdchecks.check import Check
from pdchecks.evidence import Evidence
from pdchecks.finding import Finding
from pdchecks.nodefacts import NodeFacts, gather
from pdchecks.policy import Policy
from pdchecks.registry import BY_ID
from pdchecks.run import of_node

Node = tuple[Evidence, Policy]

# Fewer are through before the answers of other processes have been carried over.
ENOUGH = 40
_AT_ONCE = 25
MOST_PROCESSES = 16


@dataclass(frozen=True, slots=True)
class Judged:
    facts: NodeFacts
    findings: list[Finding]


def judged(nodes: Sequence[Node], checks: Sequence[Check]) -> list[Judged]:
    """In the order of the nodes."""
    processes = min(len(os.sched_getaffinity(0)), MOST_PROCESSES)
    # Forked processes begin at once and need no import; a fork amid other threads could take their locks along.
    if len(nodes) < ENOUGH or processes < 2 or threading.active_count() > 1:
        return _judged(nodes, checks)
    ids = [check.id for check in checks]
    parts = [nodes[at : at + _AT_ONCE] for at in range(0, len(nodes), _AT_ONCE)]
    collects = gc.isenabled()
    # Millions of facts and findings are made here and none goes away: to look for garbage among them is a tenth of the work.
    gc.disable()
    try:
        with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
            return [one for part in pool.map(_part, parts, [ids] * len(parts)) for one in part]
    except BrokenProcessPool:
        # A process was killed, for want of memory most likely: alone it needs less.
        return _judged(nodes, checks)
    finally:
        if collects:
            gc.enable()


def _part(nodes: Sequence[Node], ids: Sequence[str]) -> list[Judged]:
    return _judged(nodes, [BY_ID[check] for check in ids])


def _judged(nodes: Sequence[Node], checks: Sequence[Check]) -> list[Judged]:
    found: list[Judged] = []
    for evidence, policy in nodes:
        facts = gather(evidence)
        found.append(Judged(facts.bare(), of_node(facts, policy, checks)))
    return found
