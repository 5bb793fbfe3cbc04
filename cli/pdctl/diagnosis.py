"""What lies between looking and printing: which checks, which nodes, which exit code."""

import sys
from collections.abc import Callable, Sequence

from pdchecks.check import Check
from pdchecks.finding import Finding, Incomplete, Status
from pdchecks.policy import Policy
from pdchecks.registry import CHECKS
from pdctl.errors import UsageError
from pdctl.evidence_source import Source
from pdctl.exit_codes import ExitCode, worst
from pdctl.inventory import Inventory
from pdctl.printable import printable


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
    inventory: Inventory | None,
    policy_of: Callable[[str], Policy],
    *,
    connect_s: float,
    deadline_s: float,
    interval_s: int,
) -> Source:
    """Runs the collector on every node of the inventory, or on this host."""
    from pdctl.collection import collect

    nodes = collect(inventory, policy_of, connect_s=connect_s, deadline_s=deadline_s, interval_s=interval_s)
    evidence = tuple(seen for node in nodes if (seen := node.evidence))
    return Source(evidence, incomplete=[node.incomplete for node in nodes if node.incomplete])


def examine(seen: Source, policy_of: Callable[[str], Policy], checks: Sequence[Check]) -> list[Finding]:
    """The findings. Blocks that no reader knows are added to what was not recognised."""
    from pdchecks.run import merged, unrecognised
    from pdctl.many_nodes import judged

    told = judged([(evidence, policy_of(evidence.node)) for evidence in seen.evidence], checks)
    seen.unrecognised += unrecognised(each.facts for each in told)
    nodes = [(each.facts, policy_of(each.facts.name)) for each in told]
    return merged([each.findings for each in told], nodes, checks)


_MOST_LISTED = 20


def tell_unread(seen: Source) -> None:
    """What was given and not read, on stderr. A long list is cut there, and whole in the JSON document."""
    for source, begin, text, lines in seen.unrecognised[:_MOST_LISTED]:
        where = f"{source}:{begin}" if begin else source
        more = f" ({lines} lines)" if lines > 1 else ""
        line = f"not recognised: {where}: {text}{more}"
        print(printable(line).replace("\n", "\ufffd"), file=sys.stderr)
    if len(seen.unrecognised) > _MOST_LISTED:
        print(f"not recognised: {len(seen.unrecognised) - _MOST_LISTED} more (-o json has all)", file=sys.stderr)


def exit_code(
    findings: Sequence[Finding], incomplete: Sequence[Incomplete], fail_on: Status, *, judged: bool
) -> ExitCode:
    """findings: those that count. judged: whether any check said anything, waived or not."""
    # Nothing judged is not a pass: the evidence held nothing that a chosen check reads.
    codes = [ExitCode.INCOMPLETE] if incomplete or not judged else []
    if any(finding.status.rank >= fail_on.rank for finding in findings):
        codes.append(ExitCode.FINDINGS)
    elif any(finding.status is Status.UNKNOWN for finding in findings):
        codes.append(ExitCode.INCOMPLETE)
    return worst(codes)
