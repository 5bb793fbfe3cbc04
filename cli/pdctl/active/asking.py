"""Says what active tests are about to do to which nodes, asks, and adds what they saw to the evidence."""

import sys
from collections.abc import Callable, Collection

from pdchecks.active.plan import Plan, make
from pdchecks.evidence import Block, Evidence
from pdchecks.nodefacts import gather
from pdchecks.policy import Policy
from pdctl.active.running import run
from pdctl.asking import has_terminal
from pdctl.errors import UsageError
from pdctl.evidence_source import Source
from pdctl.fixing import serving
from pdctl.inventory import Inventory


def asked_and_run(
    seen: Source,
    hosts: Inventory,
    policy_of: Callable[[str], Policy],
    checks: Collection[str],
    *,
    connect_s: float,
    yes: bool,
    while_serving: bool,
) -> dict[str, list[Block]]:
    """By node, the blocks of the active tests; empty where somebody said no. checks: IDs whose tests are wanted.

    Raises UsageError where nobody can be asked.
    """
    plan = make(
        [gather(each) for each in seen.evidence],
        policy_of,
        {host.name: host.address for host in hosts},
        checks,
        () if while_serving else serving(seen.evidence),
    )
    _tell(plan)
    if plan.pairs and not _agreed(plan, yes=yes):
        return {}
    found: dict[str, list[Block]] = {}
    for node, block in run(plan, {host.name: host for host in hosts}, connect_s=connect_s):
        found.setdefault(node, []).append(block)
    return found


def with_tests(evidence: Evidence, tests: dict[str, list[Block]]) -> Evidence:
    return Evidence(evidence.node, (*evidence.blocks, *tests.get(evidence.node, ())))


def _tell(plan: Plan) -> None:
    lines = (
        [f"active tests: {line}" for line in plan.load]
        if plan.pairs
        else ["active tests: no pair that could be tested"]
    )
    if plan.serving:
        lines.append(f"left alone, since an engine is active there (--while-serving): {', '.join(plan.serving)}")
    print("\n".join(lines), file=sys.stderr, flush=True)


def _agreed(plan: Plan, *, yes: bool) -> bool:
    if yes:
        return True
    if not has_terminal():
        raise UsageError(
            "`--active` puts load on nodes and links, and there is no terminal to ask on",
            hint="look at what it would do, then give `--yes`",
        )
    print(f"Test {plan.pairs} pair{'s' if plan.pairs != 1 else ''}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
