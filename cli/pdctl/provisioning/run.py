"""One provisioning run from inventory to report."""

import dataclasses
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdctl.ansible_env import unheeded
from pdctl.errors import PdError, UsageError
from pdctl.exit_codes import ExitCode
from pdctl.inventory import Inventory, load_inventory, read_inventory
from pdctl.inventory_faults import wrong
from pdctl.inventory_judgement import judge as judge_inventory
from pdctl.provisioning.backup import take_copy
from pdctl.provisioning.batches import bad, batches, refuse_unless_plain
from pdctl.provisioning.drift import forget, selection, settled
from pdctl.provisioning.fingerprint import fingerprint, host_digests
from pdctl.provisioning.fitness import has_passwords
from pdctl.provisioning.guard import MOST_KNOWN, free_locks, guard_variables
from pdctl.provisioning.impact import impact_by_role
from pdctl.provisioning.old_python import run_with_both
from pdctl.provisioning.options import Options, refuse_unknown_tags, selected_roles
from pdctl.provisioning.outcome import SETTLED, UNPROVEN, Fold, HostResult, Status, Step, exit_code
from pdctl.provisioning.record import RunRecord, forget_private
from pdctl.provisioning.runner import Ended, end_leftovers, extra_variables
from pdctl.provisioning.runs import Run, State, all_runs, over

_THROUGH = (Status.OK, Status.CHANGED, Status.PARTLY)
Watch = Callable[[Fold, Step | None], None]

# Connections of Ansible that start OpenSSH's client.
_NEED_THE_PROGRAM = ("ssh", "smart", "ansible.builtin.ssh")


@dataclass(frozen=True, slots=True)
class Report:
    """How a run ended. stopped: why hosts were not begun.

    duration_s: wall clock, the reading of the inventory included; verify_s: of it, the doctor's.
    """

    run_id: str
    folder: Path
    check: bool
    interrupted: bool
    stopped: str | None
    started: str
    duration_s: float
    verify_s: float
    hosts: tuple[HostResult, ...]
    exit_code: ExitCode


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run that goes on. hosts: as far as they had come. left: those that are not done, in order."""

    run: Run
    hosts: Mapping[str, HostResult]
    left: tuple[str, ...]


def provision(
    options: Options,
    watch: Watch,
    warn: Callable[[str], None],
    judge: Callable[[Fold], None] = lambda _fold: None,
    resumed: Resumed | None = None,
) -> Report:
    """Run the playbook over the inventory and record it.

    watch: sees each event's step, None for the silent ones. warn: is told what is odd about the inventory.
    judge: sees the hosts at the end, and may add to their problems. resumed: the run to go on with, instead of a new one.

    Raises:
        UsageError: the inventory, an option or this machine is wrong; nothing was recorded or touched.
        PdError: Ansible ended before it reached any host.
    """
    began = time.monotonic()
    refuse_unknown_tags(options)
    inventory = _inventory(options, warn)
    _refuse_without_ssh(inventory)
    addresses = {host.name: host.address for host in inventory}
    if resumed or options.drift:
        refuse_unless_plain(addresses)
    fold = Fold(addresses.items(), impact_by_role(), options.connect_timeout_s)
    groups = [tuple(addresses)] if options.check else batches(list(addresses), options.canary, options.serial)
    if resumed:
        record = RunRecord.again(resumed.run.folder, resumed.run.about, resumed.left)
        fold.hosts.update(resumed.hosts)
    else:
        record = RunRecord(options.command, options.for_record(), addresses, _basis(options, inventory))
    try:
        if resumed is None:
            record.keep_inventory(options.inventory)
            if options.plan is not None:
                record.keep_plan(options.plan)
        course = _Course(options, inventory, record, fold, watch, warn)
        if resumed:
            course.prove_anew(name for name in addresses if name not in resumed.left)
            groups = _only(resumed.left, groups)
        elif options.drift:
            groups = _only(course.drifted(), groups)
        ended, stopped = course.run(groups)
        judge(fold)
        report = _report(options, record, fold, ended, stopped, time.monotonic() - began, course.verify_s)
    except BaseException as error:
        record.close(error.code if isinstance(error, PdError) else ExitCode.FAILED, {})
        raise
    from pdctl.provisioning.document import document, host_document

    record.close(report.exit_code, {host.name: host_document(host) for host in report.hosts})
    record.summary(document(report))
    return report


@dataclass(slots=True)
class _Course:
    """What happens between a record's begin and its end. verify_s: what the doctor's looks took."""

    options: Options
    inventory: Inventory
    record: RunRecord
    fold: Fold
    watch: Watch
    warn: Callable[[str], None]
    verify_s: float = 0.0

    def run(self, groups: Sequence[Sequence[str]]) -> tuple[Ended, str | None]:
        """Group by group, until a host of one did not end well; (how, why others were not begun)."""
        asked = self._with_variables(self._over())
        whole = sum(map(len, groups)) == len(self.inventory)
        passwords = has_passwords(self.inventory)
        ended = Ended(0, False, "")
        for number, group in enumerate(groups, 1):
            only = None if len(groups) == 1 and whole else group
            results = [self.fold.hosts[name] for name in group]
            ended = run_with_both(
                asked, self.record.folder, only, results, self._event, passwords_in_inventory=passwords
            )
            hosts = [(host, self.fold.hosts[host.name]) for host in self.inventory if host.name in group]
            free_locks(self.record.id, hosts, self.options, self.warn)
            if not ended.interrupted:
                self._prove(group)
            failed = bad(self.fold.hosts[name] for name in group)
            if number < len(groups) and (failed or ended.interrupted):
                return ended, _why_stopped(failed, sum(map(len, groups[number:])))
        return ended, None

    def drifted(self) -> list[str]:
        """The hosts that are not as the last run left them; the others end here."""
        for name, run in settled(self.inventory, self._digest_of(), self.options).items():
            self._event({"event": SETTLED, "host": name, "run": run})
        return [name for name, host in self.fold.hosts.items() if not host.settled]

    def prove_anew(self, names: Iterable[str]) -> None:
        """Hosts that were through before the run was cut off: nobody says whether the doctor had come to them."""
        self._prove([name for name in names if not self.fold.hosts[name].settled])

    def _event(self, event: Any) -> None:
        if copy := take_copy(event):
            self.record.keep_backup(*copy)
        self.record.event(event)
        self.watch(self.fold, self.fold.step(event))

    def _over(self) -> list[Run]:
        """Runs of this machine that are over; what killed ones left here ends."""
        known = over(all_runs(MOST_KNOWN))
        killed = [run for run in known if run.state is State.CUT_OFF]
        end_leftovers([self.record.id, *(run.id for run in killed)])
        for run in killed:
            forget_private(run.folder)
        return known

    def _with_variables(self, known: Sequence[Run]) -> Options:
        """With what the roles `guard` and `backup` get of pdctl."""
        salt, digest_of = secrets.token_hex(8), self._digest_of()
        basis = {host.name: {"salt": salt, "digest": digest_of(host.name, salt)} for host in self.inventory}
        ours = {"backup_basis": basis, **guard_variables(self.options, known)}
        return dataclasses.replace(self.options, variables={**self.options.variables, **ours})

    def _digest_of(self) -> Callable[[str, str], str]:
        return host_digests(self.inventory, extra_variables(self.options.extra_vars), selection(self.options))

    def _prove(self, names: Sequence[str]) -> None:
        """The doctor looks at what has converged; a node that has not, after all, must not say so of itself."""
        hosts = {name: host for name in names if (host := self.fold.hosts[name]).status in _THROUGH}
        owners = selected_roles(self.options) & set(impact_by_role())
        if not hosts or not owners or self.options.check or not self.options.verify:
            return
        from pdctl.provisioning.verify import verify

        began = time.monotonic()
        connect_s = float(self.options.connect_timeout_s)
        verify(self.inventory, hosts, owners, connect_s, self.options.become_password)
        wrong = [host for host in self.inventory if host.name in hosts and _only_here_known(hosts[host.name])]
        forget(wrong, self.options, self.warn)
        self.verify_s += time.monotonic() - began


def _only(names: Iterable[str], groups: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    wanted = set(names)
    return [rest for group in groups if (rest := tuple(name for name in group if name in wanted))]


def _only_here_known(host: HostResult) -> bool:
    return bool(host.refused) or any(problem["outcome"] == UNPROVEN for problem in host.problems)


def _basis(options: Options, inventory: Inventory) -> Mapping[str, Any] | None:
    """What a resume compares, and pdctl's own variables. Of a check there is no resume."""
    if options.check:
        return None
    salt = secrets.token_hex(8)
    digests = fingerprint(inventory, extra_variables(options.extra_vars), salt)
    return {"salt": salt, "fingerprint": digests, "variables": dict(options.variables)}


def _inventory(options: Options, warn: Callable[[str], None]) -> Inventory:
    """The hosts of the run. A way back is not refused for what only a way forward needs."""
    variables = extra_variables(options.extra_vars)
    if options.command != "provision":
        inventory = load_inventory(options.inventory, limit=options.limit, variables=variables)
        warnings = inventory.warnings
    else:
        inventory = read_inventory(options.inventory, limit=options.limit, variables=variables)
        faults, warnings = judge_inventory(inventory)
        if faults:
            raise wrong(options.inventory, faults)
    for warning in warnings:
        warn(warning)
    if names := unheeded(os.environ):
        warn(f"{', '.join(names)} of the environment does not count: options of pdctl and its ansible.cfg do")
    return inventory


def _report(
    options: Options,
    record: RunRecord,
    fold: Fold,
    ended: Ended,
    stopped: str | None,
    duration_s: float,
    verify_s: float,
) -> Report:
    hosts = tuple(fold.hosts.values())
    untouched = all(host.status is Status.UNTOUCHED and host.held_by is None for host in hosts)
    if untouched and not ended.interrupted:
        raise PdError(
            "Ansible ended before it reached any host",
            detail=ended.said or f"ansible-playbook ended with {ended.returncode} and said nothing",
            hint=f"all that it printed is in {record.folder / 'ansible.log'}",
            code=ExitCode.INCOMPLETE,
        )
    return Report(
        run_id=record.id,
        folder=record.folder,
        check=options.check,
        interrupted=ended.interrupted,
        stopped=stopped,
        started=record.started.isoformat(timespec="seconds"),
        duration_s=round(duration_s, 2),
        verify_s=round(verify_s, 2),
        hosts=hosts,
        exit_code=exit_code(hosts, check=options.check, interrupted=ended.interrupted),
    )


def _why_stopped(failed: Sequence[HostResult], rest: int) -> str:
    why = f"{failed[0].name} ended {failed[0].status.value}" if failed else "interrupted"
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    return f"{why}{more}, so {rest} host(s) were not begun"


def _refuse_without_ssh(inventory: Inventory) -> None:
    over_ssh = [host.name for host in inventory if host.connection in _NEED_THE_PROGRAM]
    if over_ssh and shutil.which("ssh") is None:
        raise UsageError(
            f"no `ssh` on PATH, and {len(over_ssh)} host(s) of the inventory are reached with it",
            detail=f"the first is {over_ssh[0]}; PATH is {os.environ.get('PATH', '')}",
            hint="install OpenSSH's client (openssh-client on Debian and Ubuntu, openssh-clients on the RHEL family)",
        )
