"""Goes on with a run that did not come to its end: only the hosts that are not done, and all else as it was."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pdctl.content import content_root
from pdctl.errors import UsageError
from pdctl.inventory import load_inventory
from pdctl.provisioning.fingerprint import fingerprint
from pdctl.provisioning.options import Options
from pdctl.provisioning.outcome import HostResult
from pdctl.provisioning.plan import moved
from pdctl.provisioning.planned import go_on_with_plan, plan_of
from pdctl.provisioning.run import Report, Resumed, Watch, provision
from pdctl.provisioning.runner import extra_variables
from pdctl.provisioning.runs import Run, State, all_runs, find_run, results

_NEW = "begin a new run: `pdctl provision INVENTORY`"


def run_to_resume(asked: str | None) -> Run:
    """asked: as of `find_run`; None: the newest run that is no check.

    Raises:
        UsageError: there is none, or it cannot go on.
    """
    if asked is not None:
        run = find_run(asked)
    else:
        found = next((run for run in all_runs() if not run.options.get("check")), None)
        if found is None:
            raise UsageError("no run is recorded here that could go on", hint=_NEW)
        run = found
    if run.state is State.DAMAGED:
        raise UsageError(f"the record of run {run.id} is damaged", detail=run.fault, hint=_NEW)
    if run.state is State.RUNNING:
        where = run.about["controller"]
        raise UsageError(f"run {run.id} is still running on {where}", hint="wait for its end, or interrupt it first")
    if run.options.get("check"):
        raise UsageError(f"run {run.id} was a check: it changed nothing, and there is nothing to go on with")
    if not (run.about.get("basis") or {}).get("fingerprint"):
        raise UsageError(f"the record of run {run.id} does not say what it stood on", hint=_NEW)
    return run


def resumed(run: Run) -> Resumed | None:
    """None where nothing is left to do."""
    hosts = {host.name: host for host in results(run).hosts}
    hosts = {name: hosts.get(name, HostResult(name, str(address))) for name, address in run.hosts.items()}
    left = tuple(name for name, host in hosts.items() if not _done(host))
    if not left and run.state is State.ENDED:
        return None
    for name in left:
        hosts[name].begin_again()
    return Resumed(run, hosts, left)


def options_of(
    run: Run,
    *,
    extra_vars: Sequence[str],
    forks: int | None,
    connect_timeout_s: int | None,
    become: bool,
    become_password: str | None,
    break_lock: bool,
    while_serving: bool,
) -> Options:
    """As the run had them; what is given here beats the record. Values of `-e` are in no record."""
    was = run.options
    return Options(
        inventory=Path(was["inventory"]),
        playbook=content_root() / "playbooks" / Path(was["playbook"]).name,
        diff=bool(was.get("diff")),
        limit=was.get("limit"),
        tags=tuple(was.get("tags", ())),
        skip_tags=tuple(was.get("skip_tags", ())),
        extra_vars=tuple(extra_vars),
        canary=was.get("canary"),
        serial=was.get("serial"),
        forks=forks or int(was["forks"]),
        connect_timeout_s=connect_timeout_s or int(was["connect_timeout_s"]),
        become=become or bool(was.get("become")),
        become_password=become_password,
        break_lock=break_lock,
        while_serving=while_serving or bool(was.get("while_serving")),
        command=run.about["command"],
        variables=run.about["basis"].get("variables") or {},
    )


def resume(state: Resumed, options: Options, watch: Watch, warn: Callable[[str], None]) -> Report:
    """
    Raises:
        UsageError: something that the run stood on is not as it was, and nothing was touched; else as of `provision`.
    """
    if plan := plan_of(state.run):
        return go_on_with_plan(plan, state, options, watch, warn)
    basis = state.run.about["basis"]
    variables = extra_variables(options.extra_vars)
    inventory = load_inventory(options.inventory, limit=options.limit, variables=variables)
    now = fingerprint(inventory, variables, basis["salt"])
    if lines := moved(basis["fingerprint"], now):
        given = any(line.startswith("variables:") for line in lines)
        raise UsageError(
            f"run {state.run.id} cannot go on, so nothing was touched",
            detail="changed since it began:\n" + "\n".join(lines),
            hint="give the same `-e` again: their values are in no record" if given else _NEW,
        )
    return provision(options, watch, warn, resumed=state)


def _done(host: HostResult) -> bool:
    return host.finished and host.failure is None and host.unreachable is None and host.held_by is None
