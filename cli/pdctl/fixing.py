"""`pdctl doctor --fix`: runs the roles of a plan over the nodes, after somebody has agreed."""

import json
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pdchecks.evidence import Evidence
from pdchecks.facts.deployment import SupervisedUnit
from pdchecks.facts.host import Unit
from pdchecks.finding import Status
from pdchecks.nodefacts import NodeFacts, gather
from pdchecks.remedies import Batch, Plan, moved, plan
from pdchecks.report import Report
from pdchecks.units import is_engine
from pdctl.asking import has_terminal
from pdctl.content import content_root
from pdctl.errors import UsageError
from pdctl.evidence_source import Source
from pdctl.exit_codes import ExitCode, worst
from pdctl.inventory import Inventory
from pdctl.provisioning.options import Options
from pdctl.provisioning.progress import progress
from pdctl.provisioning.run import provision
from pdctl.render.doctor import exit_status, print_lines, put, show
from pdctl.render.fixing import document, moved_lines, plan_lines
from pdctl.render.formats import ReportFormat
from pdctl.visit import Visit


def mend(
    visit: Visit,
    seen: Source,
    report: Report,
    threshold: Status,
    output: ReportFormat,
    *,
    yes: bool,
    become: bool,
    while_serving: bool,
    verbose: bool,
) -> int:
    """Shows report and plan, asks, runs, looks again and says what moved. Returns the exit code.

    For machines stdout holds one document, of the second look. Raises UsageError where nobody can be asked.
    """
    people = output is ReportFormat.TABLE
    if people:
        show(report, verbose=verbose)
    made = plan(report.findings, () if while_serving else serving(seen.evidence))
    print_lines(lambda width: plan_lines(made, width), stderr=not people)
    if not made.batches or not agree(made, yes=yes):
        if not people:
            put(report, output, threshold, verbose=verbose, fix=document(made, False, None))
        return exit_status(report, output, threshold)
    ran = run(
        made,
        visit.hosts,
        become=become,
        password=visit.sudo,
        connect_s=visit.connect_s,
        while_serving=while_serving,
    )
    after = visit.judge(visit.look())
    what = moved(report.findings, after.findings)
    print_lines(lambda width: moved_lines(what, width), stderr=not people)
    if not people:
        put(after, output, threshold, verbose=verbose, fix=document(made, True, what))
    code = exit_status(after, output, threshold)
    return code if output is ReportFormat.NAGIOS else worst([ran, ExitCode(code)])


def serving(evidence: Sequence[Evidence]) -> set[str]:
    """Nodes on which an engine is active."""
    return {node.name for node in map(gather, evidence) if _serves(node)}


def _serves(node: NodeFacts) -> bool:
    by_systemd = any(is_engine(unit.name) and unit.active in ("active", "activating") for unit in node.all(Unit))
    return by_systemd or any(unit.state in ("ready", "starting") for unit in node.all(SupervisedUnit))


def agree(plan: Plan, *, yes: bool) -> bool:
    """Whether to go on. Raises UsageError where nobody can be asked."""
    if yes:
        return True
    if not has_terminal():
        raise UsageError(
            "`--fix` changes nodes, and there is no terminal to ask on", hint="look at the plan, then give `--yes`"
        )
    nodes = len({node for batch in plan.batches for node in batch.nodes})
    print(f"Run these roles on {nodes} node{'s' if nodes != 1 else ''}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def run(
    plan: Plan,
    hosts: Inventory | None,
    *,
    become: bool,
    connect_s: float,
    while_serving: bool,
    password: str | None = None,
) -> ExitCode:
    """`pdctl provision` for each batch, with its tags and nodes alone. hosts: None for this host. password: of sudo."""
    with _inventory(hosts, plan) as inventory:
        return worst([_run(batch, inventory, become, password, connect_s, while_serving) for batch in plan.batches])


def _run(
    batch: Batch, inventory: Path, become: bool, password: str | None, connect_s: float, while_serving: bool
) -> ExitCode:
    from pdctl.provisioning.render import text

    options = Options(
        inventory=inventory,
        playbook=content_root() / "playbooks" / "provision.yml",
        limit=",".join(batch.nodes),
        tags=batch.tags,
        become=become,
        become_password=password,
        connect_timeout_s=int(connect_s),
        # The second look follows at once.
        verify=False,
        while_serving=while_serving,
    )
    with progress() as watch:
        report = provision(options, watch, warn=_warn)
    print(text(report, diff=False), file=sys.stderr, flush=True)
    return report.exit_code


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr, flush=True)


@contextmanager
def _inventory(hosts: Inventory | None, plan: Plan) -> Iterator[Path]:
    """The inventory that was given, or one of this host, under the name that its findings carry."""
    if hosts is not None:
        yield hosts.source
        return
    name = next((node for batch in plan.batches for node in batch.nodes), platform.node() or "localhost")
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    with tempfile.TemporaryDirectory(prefix="pdctl-") as folder:
        path = Path(folder) / "this-host.json"
        path.write_text(json.dumps({"all": {"hosts": {name: variables}}}), encoding="utf-8")
        yield path
