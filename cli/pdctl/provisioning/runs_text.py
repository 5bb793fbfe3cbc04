"""Records of runs as text."""

from collections.abc import Iterable, Sequence
from typing import Any

from pdctl.exit_codes import ExitCode
from pdctl.provisioning.outcome import HostResult
from pdctl.provisioning.render import change_line, host_details, host_table
from pdctl.provisioning.runs import Results, Run, State
from pdctl.render.columns import columns


def list_text(runs: Sequence[Run]) -> str:
    if not runs:
        return "no runs recorded here"
    rows = [("run", "command", "state", "exit", "hosts", "inventory")]
    rows += [(run.id, _command(run), run.state.value, _exit(run), _hosts(run), _inventory(run)) for run in runs]
    faults = [f"{run.id}: {run.fault}" for run in runs if run.fault]
    return "\n".join([*columns(rows), *(["", *faults] if faults else [])])


def show_text(run: Run, results: Results, hosts: Sequence[HostResult]) -> str:
    lines = list(_head(run))
    if hosts:
        lines += ["", *host_table(hosts, check=bool(run.options.get("check")))]
    for host in hosts:
        details = host_details(host, diff=False)
        lines += details
        if host.changes:
            lines += [] if details else ["", f"{host.name}:"]
            lines += [f"  {change_line(change)}{_at(change.target)}" for change in host.changes]
    lines += _faults(results)
    return "\n".join(lines)


def diff_text(results: Results, hosts: Sequence[HostResult]) -> str:
    lines: list[str] = []
    for host in hosts:
        changes = HostResult(host.name, host.address, changes=host.changes)
        lines += host_details(changes, diff=True) or ["", f"{host.name}: no change"]
    return "\n".join([*lines, *_faults(results)]).lstrip("\n")


def _head(run: Run) -> Iterable[str]:
    about = run.about
    yield f"run {run.id}: {_command(run)}, {run.state.value}"
    if run.state is State.DAMAGED:
        return
    yield f"  when       {about['started']} to {about.get('ended') or '(no end recorded)'}"
    if resumed := about.get("resumed"):
        yield f"  resumed    {', '.join(map(str, resumed))}"
    yield f"  by         {about['user']} on {about['controller']}"
    yield f"  inventory  {_inventory(run)}"
    yield f"  options    {', '.join(_options(run.options)) or 'none'}"
    if isinstance(code := about.get("exit_code"), int):
        meaning = f" ({ExitCode(code).meaning})" if code in list(ExitCode) else ""
        yield f"  exit code  {code}{meaning}"
    yield f"  record     {run.folder}"


def _options(options: Any) -> Iterable[str]:
    for key, value in options.items():
        if key not in ("inventory", "playbook") and value not in (None, False, []):
            yield key if value is True else f"{key}={','.join(map(str, value)) if isinstance(value, list) else value}"


def _command(run: Run) -> str:
    return str(run.about.get("command", "?")) + (" --check" if run.options.get("check") else "")


def _exit(run: Run) -> str:
    code = run.about.get("exit_code")
    return "-" if code is None else str(code)


def _hosts(run: Run) -> str:
    counts = [f"{number} {status}" for status, number in (run.about.get("summary") or {}).items()]
    return ", ".join(counts) or (f"{len(run.hosts)} asked" if run.hosts else "?")


def _inventory(run: Run) -> str:
    return str(run.options.get("inventory", "?"))


def _at(target: str | None) -> str:
    return f" ({target})" if target else ""


def _faults(results: Results) -> list[str]:
    return ["", *(f"not read: {fault}" for fault in results.faults)] if results.faults else []
