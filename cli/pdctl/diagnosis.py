"""What lies between looking and printing: which checks, which nodes, which exit code."""

import platform
import sys
from collections.abc import Callable, Sequence

from pdchecks.check import Check
from pdchecks.evidence import Evidence, by_node, read_blocks
from pdchecks.finding import Finding, Status
from pdchecks.policy import Policy
from pdchecks.registry import CHECKS
from pdctl.errors import UsageError
from pdctl.exit_codes import ExitCode, worst
from pdctl.inventory import Inventory
from pdctl.reach.outcome import Outcome, Reached, Unreached

Incomplete = tuple[str, str]
"""A node and why it could not be looked at."""


def selected(select: Sequence[str], ignore: Sequence[str]) -> list[Check]:
    """The checks whose ID begins with one of select (all, if none is given) and with none of ignore.

    Raises UsageError for a prefix that no check has: a misspelt ID must not turn into a clean bill.
    """
    for prefix in (*select, *ignore):
        if not any(check.id.startswith(prefix.upper()) for check in CHECKS):
            raise UsageError(f"no check begins with `{prefix}`", hint="`pdctl checks list` names them all")
    wanted = tuple(prefix.upper() for prefix in select) or ("",)
    unwanted = tuple(prefix.upper() for prefix in ignore)
    return [check for check in CHECKS if check.id.startswith(wanted) and not check.id.startswith(unwanted)]


def look(
    inventory: Inventory | None, policy_of: Callable[[str], Policy], *, connect_s: float, deadline_s: float
) -> tuple[list[Evidence], list[Incomplete]]:
    """Runs the collector on every node of the inventory, or on this host."""
    from pdchecks.collector import script
    from pdctl.reach.fleet import run_everywhere
    from pdctl.reach.local import run_local

    if inventory is None:
        name = platform.node() or "localhost"
        outcomes = [run_local(name, script(policy_of(name)), deadline_s)]
    else:
        scripts = {host.name: script(policy_of(host.name)) for host in inventory}
        outcomes = run_everywhere(
            inventory.hosts,
            lambda host: scripts[host.name],
            connect_s=connect_s,
            deadline_s=deadline_s,
            done=_tell if len(inventory) > 1 else lambda outcome: None,
        )
    evidence: list[Evidence] = []
    incomplete: list[Incomplete] = []
    for outcome in outcomes:
        # What a node printed is its own, whatever it says about names.
        blocks = tuple(block for part in by_node(read_blocks(outcome.output), outcome.node) for block in part.blocks)
        if isinstance(outcome, Unreached):
            incomplete.append((outcome.node, outcome.reason))
        elif not blocks:
            incomplete.append((outcome.node, "the collector printed no evidence"))
        if blocks:
            evidence.append(Evidence(outcome.node, blocks))
    return evidence, incomplete


def _tell(outcome: Outcome) -> None:
    said = "looked" if isinstance(outcome, Reached) else outcome.reason
    print(f"{outcome.node}: {said}", file=sys.stderr, flush=True)


def exit_code(findings: Sequence[Finding], incomplete: Sequence[Incomplete], fail_on: Status) -> ExitCode:
    # Nothing judged is not a pass: the evidence held nothing that a chosen check reads.
    codes = [ExitCode.INCOMPLETE] if incomplete or not findings else []
    if any(finding.status.rank >= fail_on.rank for finding in findings):
        codes.append(ExitCode.FINDINGS)
    elif any(finding.status is Status.UNKNOWN for finding in findings):
        codes.append(ExitCode.INCOMPLETE)
    return worst(codes)
