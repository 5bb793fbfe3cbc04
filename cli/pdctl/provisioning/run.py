"""One provisioning run from inventory to report."""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdctl.errors import PdError, UsageError
from pdctl.exit_codes import ExitCode
from pdctl.inventory import Inventory, load_inventory, read_inventory
from pdctl.inventory_faults import wrong
from pdctl.inventory_judgement import judge as judge_inventory
from pdctl.provisioning.backup import take_copy
from pdctl.provisioning.batches import bad, batches
from pdctl.provisioning.fitness import has_passwords
from pdctl.provisioning.impact import impact_by_role
from pdctl.provisioning.options import Options, refuse_unknown_tags
from pdctl.provisioning.outcome import Fold, HostResult, Status, Step, exit_code
from pdctl.provisioning.record import RunRecord
from pdctl.provisioning.runner import Ended, extra_variables, run_playbook

Watch = Callable[[Fold, Step | None], None]

# Connections of Ansible that start OpenSSH's client.
_NEED_THE_PROGRAM = ("ssh", "smart", "ansible.builtin.ssh")


@dataclass(frozen=True, slots=True)
class Report:
    """How a run ended. duration_s: wall clock, the reading of the inventory included. stopped: why hosts were not begun."""

    run_id: str
    folder: Path
    check: bool
    interrupted: bool
    stopped: str | None
    started: str
    duration_s: float
    hosts: tuple[HostResult, ...]
    exit_code: ExitCode


def provision(
    options: Options,
    watch: Watch,
    warn: Callable[[str], None],
    judge: Callable[[Fold], None] = lambda _fold: None,
) -> Report:
    """Run the playbook over the inventory and record it.

    watch: sees each event's step, None for the silent ones. warn: is told what is odd about the inventory.
    judge: sees the hosts at the end, and may add to their problems.

    Raises:
        UsageError: the inventory, an option or this machine is wrong; nothing was recorded or touched.
        PdError: Ansible ended before it reached any host.
    """
    began = time.monotonic()
    refuse_unknown_tags(options)
    inventory = _inventory(options, warn)
    _refuse_without_ssh(inventory)
    addresses = {host.name: host.address for host in inventory}
    fold = Fold(addresses.items(), impact_by_role())
    groups = batches(list(addresses), options.canary, options.serial)
    if options.check:
        groups = [tuple(addresses)]
    record = RunRecord(options.command, options.for_record(), addresses)
    try:
        record.keep_inventory(options.inventory)

        def on_event(event: Any) -> None:
            if copy := take_copy(event):
                record.keep_backup(*copy)
            record.event(event)
            watch(fold, fold.step(event))

        ended, stopped = Ended(0, False, ""), None
        for number, group in enumerate(groups, 1):
            only = group if len(groups) > 1 else None
            ended = run_playbook(options, record.id, only, on_event, passwords_in_inventory=has_passwords(inventory))
            failed = bad(fold.hosts[name] for name in group)
            if number < len(groups) and (failed or ended.interrupted):
                stopped = _why_stopped(failed, sum(map(len, groups[number:])))
                break
        judge(fold)
        report = _report(options, record, fold, ended, stopped, time.monotonic() - began)
    except BaseException as error:
        record.close(error.code if isinstance(error, PdError) else ExitCode.FAILED, {})
        raise
    from pdctl.provisioning.document import document, host_document

    record.close(report.exit_code, {host.name: host_document(host) for host in report.hosts})
    record.summary(document(report))
    return report


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
    return inventory


def _report(
    options: Options, record: RunRecord, fold: Fold, ended: Ended, stopped: str | None, duration_s: float
) -> Report:
    hosts = tuple(fold.hosts.values())
    untouched = all(host.status is Status.UNTOUCHED for host in hosts)
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
