"""Units of the engines: failed, restarting over and over, or started from a file or with limits that have changed since."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.host import Limit, Unit
from pdchecks.facts.rdma import NoRdmaDevice
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.limit_scope import floor_of, reaches
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.units import MANY_RESTARTS, is_engine


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for unit in node.all(Unit):
        if is_engine(unit.name):
            yield _unit(unit, node, policy)


def _unit(unit: Unit, node: NodeFacts, policy: Policy) -> Verdict:
    log = (f"systemctl status {unit.name}", f"journalctl -u {unit.name} -n 100")
    restart = Remedy(
        "Fix what the log names, then start it again.",
        commands=(f"systemctl reset-failed {unit.name}", f"systemctl restart {unit.name}"),
        impact=Impact.RESTART_ENGINE,
    )
    if unit.load == "masked":
        unmask = Remedy(
            "Take the link away, and start it.",
            commands=(f"systemctl unmask {unit.name}", f"systemctl start {unit.name}"),
        )
        return Verdict(
            Status.FAIL,
            unit.name,
            f"{unit.name} is masked",
            "It is linked to /dev/null: nothing can start it.",
            (unit.quote,),
            log,
            unmask,
        )
    if unit.load == "not-found":
        return Verdict(Status.INFO, unit.name, f"{unit.name} does not exist on this node", quotes=(unit.quote,))
    if unit.active == "failed" or unit.load in ("error", "bad-setting"):
        how = f" ({unit.result})" if unit.result and unit.result != "success" else ""
        why = {
            "oom-kill": "The kernel killed it for memory.",
            "timeout": "It did not say that it was ready within its start time.",
            "watchdog": "It stopped answering its watchdog.",
            "start-limit-hit": "It ended again and again right after its start, and systemd gave up.",
        }.get(unit.result, "The process ended with an error; its journal says which.")
        return Verdict(
            Status.FAIL, unit.name, f"{unit.name} is {unit.load}, {unit.active}{how}", why, (unit.quote,), log, restart
        )
    if unit.active == "activating" and unit.sub == "auto-restart":
        return Verdict(
            Status.FAIL,
            unit.name,
            f"{unit.name} ended and waits for its restart ({unit.restarts} so far)",
            "It fails soon after each start: no request can be served.",
            (unit.quote,),
            log,
            restart,
        )
    if unit.restarts >= MANY_RESTARTS:
        return Verdict(
            Status.WARN,
            unit.name,
            f"{unit.name} is {unit.active} and was restarted {unit.restarts} times",
            "It runs now, but ends again and again; each end aborts the requests in it.",
            (unit.quote,),
            log,
            restart,
        )
    if unit.stale:
        return Verdict(
            Status.WARN,
            unit.name,
            f"{unit.name} runs by an older version of its unit file",
            "The file changed and systemd was not told.",
            (unit.quote,),
            (f"systemctl show -p NeedDaemonReload {unit.name}",),
            Remedy(
                "Reload systemd, then restart the unit.",
                commands=("systemctl daemon-reload", f"systemctl restart {unit.name}"),
                impact=Impact.RESTART_ENGINE,
            ),
        )
    if outgrown := _outgrown(unit, node, policy):
        return outgrown
    status = Status.PASS if unit.active == "active" else Status.INFO
    return Verdict(status, unit.name, f"{unit.name} is {unit.active or unit.load}", quotes=(unit.quote,))


def _outgrown(unit: Unit, node: NodeFacts, policy: Policy) -> Verdict | None:
    """The process cannot get the policy's limit, and its unit now grants more: it was started before.

    By hard limits: a process moves its soft one as it likes.
    """
    facts = {(fact.scope, fact.name): fact for fact in node.all(Limit)} if unit.pid else {}
    # Without an RDMA device nothing registers memory.
    for name in ("nofile",) if node.all(NoRdmaDevice) else ("memlock", "nofile"):
        granted, given = facts.get((f"unit {unit.name}", name)), facts.get((f"process {unit.pid}", name))
        if granted is None or given is None or reaches(given.hard, floor_of(policy, name)):
            continue
        if given.hard is not None and (granted.hard is None or granted.hard > given.hard):
            now = "unlimited" if granted.hard is None else str(granted.hard)
            return Verdict(
                Status.WARN,
                unit.name,
                f"{unit.name} runs with an older limit: its process has {name} {given.hard}, the unit now grants {now}",
                "A process keeps the limits of its start. The unit or systemd's defaults changed since.",
                (given.quote, granted.quote),
                (
                    f"cat /proc/$(systemctl show -p MainPID --value {unit.name})/limits",
                    f"systemctl show -p Limit{name.upper()} {unit.name}",
                ),
                Remedy("Restart the unit.", commands=(f"systemctl restart {unit.name}",), impact=Impact.RESTART_ENGINE),
            )
    return None


CHECK = NodeCheck(
    id="PD-SVC-002",
    topic="service.engine",
    title="Engine unit failed or keeps restarting",
    severity=Severity.CRITICAL,
    tools=("systemctl",),
    sources=(
        "systemd.unit(5), StartLimitBurst",
        "systemd.service(5), Restart",
        "systemctl(1), show",
        "setrlimit(2): limits are inherited at fork(2)",
    ),
    need=Need.ENGINE,
    judge=judge,
)
