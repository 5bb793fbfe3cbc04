"""One resource limit against a floor: the same words and the same remedy whichever resource it is."""

from collections.abc import Callable, Iterator

from pdchecks.check import Verdict
from pdchecks.converge import converge
from pdchecks.evidence import Quote
from pdchecks.facts.host import Limit, Unit
from pdchecks.finding import Impact, Remedy, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

SERVICES = "systemd services"
# What role limits writes.
_LOGINS = "/etc/security/limits.d/90-pdctl.conf"
_MANAGER = "/etc/systemd/system.conf.d"


def floor_of(policy: Policy, name: str) -> int | None:
    """The policy's limit, None for unlimited. memlock in bytes: the policy counts it in KiB, as pam_limits does."""
    wanted = policy.values.limits.memlock if name == "memlock" else policy.values.limits.nofile
    return None if wanted == "unlimited" else int(wanted) * (1024 if name == "memlock" else 1)


def reaches(value: int | None, floor: int | None) -> bool:
    """value and floor: None for unlimited."""
    return value is None or (floor is not None and value >= floor)


def limits(node: NodeFacts, name: str) -> Iterator[Limit]:
    """The limits of that resource that are judged by themselves.

    Not a unit's that only repeats the manager's default, nor the process of a unit whose limit was seen: PD-SVC-002
    compares those two.
    """
    named = [limit for limit in node.all(Limit) if limit.name == name]
    scopes = {limit.scope for limit in named}
    pids = {f"process {unit.pid}" for unit in node.all(Unit) if unit.pid and f"unit {unit.name}" in scopes}
    defaults = {(limit.soft, limit.hard) for limit in named if limit.scope == SERVICES}
    for limit in named:
        repeats = limit.scope.startswith("unit ") and (limit.soft, limit.hard) in defaults
        if limit.scope not in pids and not repeats:
            yield limit


def judge_limit(
    limit: Limit,
    floor: int | None,
    shown: Callable[[int | None], str],
    *,
    cause: str,
    verify: tuple[str, ...],
    below: Status,
    also: tuple[Quote, ...] = (),
) -> Verdict:
    """floor: None for unlimited, memlock in bytes. below: the status where a process cannot get the floor; where it can
    raise its own soft limit to it, a warning. also: what else was seen of it.
    """
    subject = f"{limit.name} of {limit.scope}"
    if reaches(limit.soft, floor):
        return Verdict(Status.PASS, subject, f"{subject} is {shown(limit.soft)}", quotes=(limit.quote,))
    hard = "" if limit.hard == limit.soft else f" (hard limit {shown(limit.hard)})"
    return Verdict(
        Status.WARN if reaches(limit.hard, floor) else below,
        subject,
        f"{subject} is {shown(limit.soft)}{hard}; the policy wants {shown(floor)}",
        cause,
        (limit.quote, *also),
        verify,
        _remedy(limit, floor),
    )


def _remedy(limit: Limit, floor: int | None) -> Remedy:
    # pam_limits counts locked memory in KiB, systemd in bytes.
    of_login = "unlimited" if floor is None else str(floor // 1024 if limit.name == "memlock" else floor)
    of_unit = f"Limit{limit.name.upper()}={'infinity' if floor is None else floor}"
    if limit.scope == SERVICES:
        return converge(
            "limits",
            "Raise the limit of logins and of services, then restart the engines, which keep the limits of their start.",
            f"mkdir -p {_MANAGER}",
            f"printf '[Manager]\\nDefault{of_unit}\\n' >> {_MANAGER}/90-pdctl.conf",
            "systemctl daemon-reexec",
            impact=Impact.RESTART_ENGINE,
        )
    if limit.scope.startswith("unit "):
        unit = limit.scope.removeprefix("unit ")
        return Remedy(
            "Raise it in a drop-in of the unit, whose own line beats the manager's default, and restart the unit.",
            commands=(
                f"mkdir -p /etc/systemd/system/{unit}.d",
                f"printf '[Service]\\n{of_unit}\\n' > /etc/systemd/system/{unit}.d/90-pdctl-{limit.name}.conf",
                "systemctl daemon-reload",
                f"systemctl restart {unit}",
            ),
            impact=Impact.RESTART_ENGINE,
        )
    return converge(
        "limits",
        "Raise the limit of logins and of services, then log in again and restart the engines.",
        # `*` does not reach root.
        f"printf '* - {limit.name} {of_login}\\nroot - {limit.name} {of_login}\\n' >> {_LOGINS}",
        impact=Impact.RESTART_ENGINE,
    )
