"""The doctor as verifier: what a role promises, its checks must see on the node, in new evidence.

A finding's remedy names the role that mends it, which is the one map of roles and checks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pdchecks.check import NodeCheck
from pdchecks.finding import Finding, Status
from pdchecks.registry import CHECKS
from pdctl.diagnosis import examine, look
from pdctl.errors import UsageError
from pdctl.inventory import Inventory
from pdctl.policy_source import policy_for
from pdctl.provisioning.outcome import UNPROVEN, HostResult

_DEADLINE_S = 120.0


def verify(
    inventory: Inventory, hosts: Mapping[str, HostResult], owners: Iterable[str], connect_s: float, sudo: str | None
) -> None:
    """Looks at these hosts of the inventory and adds to their problems. owners: the roles that ran. sudo: as of `collect`."""
    nodes = replace(inventory, hosts=tuple(host for host in inventory if host.name in hosts))
    try:
        policy_of = policy_for(nodes)
        seen = look(nodes, policy_of, connect_s=connect_s, deadline_s=_DEADLINE_S, interval_s=0, sudo=sudo)
        findings = examine(seen, policy_of, [check for check in CHECKS if isinstance(check, NodeCheck)])
    except UsageError as error:
        for host in hosts.values():
            host.unverified = f"{error.message}: {error.detail}"
        return
    judge(findings, hosts, owners)
    for missing in seen.incomplete:
        hosts[missing.node].unverified = missing.reason


def judge(findings: Iterable[Finding], hosts: Mapping[str, HostResult], owners: Iterable[str]) -> None:
    """A role that said itself what it could not do is not asked twice."""
    owned = set(owners)
    told = {(name, problem["role"]) for name, host in hosts.items() for problem in host.problems}
    for finding in findings:
        role = finding.remedy.role if finding.remedy else None
        if finding.status is Status.FAIL and role in owned and (finding.subject.node, role) not in told:
            hosts[finding.subject.node].problems.append(_problem(role, finding))


def _problem(role: str | None, finding: Finding) -> dict[str, Any]:
    key = f"{finding.check} {finding.subject.object}"
    return {"role": role, "key": key, "outcome": UNPROVEN, "message": finding.summary}
