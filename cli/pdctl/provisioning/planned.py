"""Makes a plan from a check, and does exactly what a plan says, or refuses and names what moved."""

import dataclasses
import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from pdctl.errors import PdError, UsageError
from pdctl.exit_codes import ExitCode
from pdctl.inventory import load_inventory
from pdctl.provisioning.batches import pattern, refuse_unless_plain
from pdctl.provisioning.fingerprint import Fingerprint, digest, fingerprint
from pdctl.provisioning.options import Options
from pdctl.provisioning.outcome import HostResult, Status
from pdctl.provisioning.plan import (
    Plan,
    mark_deviations,
    moved,
    moved_nodes,
    plan_document,
    read_plan,
    refuse_unwritable,
    write_plan,
)
from pdctl.provisioning.record import BACKUPS, PLAN, file_of
from pdctl.provisioning.run import Report, Resumed, Watch, provision
from pdctl.provisioning.runner import extra_variables
from pdctl.provisioning.runs import Run

_LARGEST_STATE = 64 << 20
_SEEN = (Status.OK, Status.CHANGED, Status.PARTLY)


def make_plan(path: Path, options: Options, watch: Watch, warn: Callable[[str], None]) -> Report:
    """Check, and write the plan to `path`.

    Raises:
        UsageError: as of `provision`, or what the plan stands on moved while it was made.
        PdError: there is no host that a plan could be about; nothing was written.
    """
    refuse_unwritable(path)
    options = dataclasses.replace(options, check=True, diff=True)
    salt = secrets.token_hex(8)
    before = _fingerprint(options, salt)
    report = provision(options, watch, warn)
    if report.interrupted:
        raise PdError("interrupted while the plan was made; none was written", code=ExitCode.INTERRUPTED)
    if _fingerprint(options, salt) != before:
        raise UsageError("inventory, policy or roles changed while the plan was made", hint="make it again")
    states = _states(report)
    document = plan_document(report.run_id, salt, options.for_record(), before, report.hosts, states)
    if not document["hosts"]:
        raise PdError("no host came through the check, so there is no plan", code=ExitCode.INCOMPLETE)
    write_plan(path, document)
    return report


def apply_plan(plan: Plan, options: Options, watch: Watch, warn: Callable[[str], None]) -> Report:
    """Run on the hosts of the plan. options: what the command line may add (forks, batches, privileges, variables).

    Raises:
        UsageError: something that the plan stands on is not as it was; nothing was touched.
        PdError: a node of the plan cannot be looked at; nothing was touched.
    """
    options = _as_planned(plan, options)
    _refuse(moved(plan.fingerprint, _fingerprint(options, plan.salt)))
    options = _narrowed(plan, options)
    look = _look(options, watch, warn)
    away = [host for host in look.hosts if host.status not in _SEEN]
    if away:
        raise PdError(
            "the nodes of the plan cannot all be looked at, so nothing was touched",
            detail="\n".join(f"{host.name}: {_why(host)}" for host in away),
            code=ExitCode.INCOMPLETE,
        )
    _refuse(moved_nodes(plan, _states(look)))
    return provision(options, watch, warn, lambda fold: mark_deviations(plan, fold.hosts))


def plan_of(run: Run) -> Plan | None:
    """The plan that a run was to do, from its record; None where it had none.

    Raises:
        UsageError: the record has it no more.
    """
    return read_plan(run.folder / PLAN) if "apply_plan" in run.options else None


def go_on_with_plan(plan: Plan, state: Resumed, options: Options, watch: Watch, warn: Callable[[str], None]) -> Report:
    """Goes on with a run of `apply_plan`, on the hosts that are not done.

    A node that the first try had come to must have been as the plan says before that: it keeps what the try found. One that cannot be
    looked at is let be: it ends by itself, like any node that is lost, and by itself it compares its state with the plan.

    Raises:
        UsageError: something that the plan stands on is not as it was; nothing was touched.
    """
    options = _as_planned(plan, options)
    _refuse(moved(plan.fingerprint, _fingerprint(options, plan.salt)))
    refuse_unless_plain(state.left)
    if state.left:
        left = dataclasses.replace(options, limit=pattern(state.left))
        states = _states(_look(left, watch, warn, former=state.run.id))
        seen = {name: host for name, host in plan.hosts.items() if name in states}
        _refuse(moved_nodes(dataclasses.replace(plan, hosts=seen), states))
    options = _narrowed(plan, options)
    return provision(options, watch, warn, lambda fold: mark_deviations(plan, fold.hosts), resumed=state)


def _as_planned(plan: Plan, options: Options) -> Options:
    """The plan says which nodes and roles are meant, and what each node has to be like."""
    wanted = plan.options
    return dataclasses.replace(
        options,
        inventory=Path(wanted["inventory"]),
        limit=wanted["limit"],
        tags=tuple(wanted["tags"]),
        skip_tags=tuple(wanted["skip_tags"]),
        become=options.become or wanted["become"],
        while_serving=options.while_serving or wanted["while_serving"],
        variables={"backup_expected": {name: digest(host.state) for name, host in plan.hosts.items()}},
        plan=plan.document,
    )


def _narrowed(plan: Plan, options: Options) -> Options:
    """Without the hosts that the plan leaves out."""
    if not plan.left_out:
        return options
    limit = pattern(list(plan.hosts))
    if limit is None:
        raise UsageError("the plan leaves hosts out, and a name in it means more in a pattern of Ansible")
    return dataclasses.replace(options, limit=limit)


def _look(options: Options, watch: Watch, warn: Callable[[str], None], former: str = "") -> Report:
    """Only what is tagged `always` runs: the look at the node before a run. former: as of the role `backup`."""
    variables = {"backup_former": former} if former else {}
    look = provision(
        dataclasses.replace(options, check=True, tags=("always",), skip_tags=(), variables=variables, plan=None),
        watch,
        warn,
    )
    if look.interrupted:
        raise PdError("interrupted while the nodes were looked at; nothing was touched", code=ExitCode.INTERRUPTED)
    return look


def _why(host: HostResult) -> str:
    return host.unreachable or (host.failure.message if host.failure else host.status.value)


def _refuse(lines: list[str]) -> None:
    if lines:
        raise UsageError(
            "the plan no longer holds, so nothing was touched",
            detail="changed since:\n" + "\n".join(lines),
            hint="make the plan again: `pdctl provision INVENTORY --plan-out FILE`",
        )


def _fingerprint(options: Options, salt: str) -> Fingerprint:
    variables = extra_variables(options.extra_vars)
    return fingerprint(load_inventory(options.inventory, limit=options.limit, variables=variables), variables, salt)


def _states(report: Report) -> Mapping[str, Mapping[str, str]]:
    """Host -> item of its managed state -> digest, as the check left it in the record."""
    found = {}
    for host in report.hosts:
        path = report.folder / BACKUPS / file_of(host.name)
        if path.exists() and path.stat().st_size <= _LARGEST_STATE:
            found[host.name] = json.loads(path.read_bytes()).get("state", {})
    return found
