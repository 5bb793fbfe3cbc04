"""`pdctl doctor`: look (collector or files), judge (pdchecks), print; on request compare, or mend and look again."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdctl.asking import become_password
from pdctl.errors import UsageError
from pdctl.render.formats import ReportFormat

if TYPE_CHECKING:
    from pdchecks.finding import Status
    from pdchecks.report import Report
    from pdctl.evidence_source import Source
    from pdctl.visit import Visit


class FailOn(StrEnum):
    INFO = "info"
    UNKNOWN = "unknown"
    WARN = "warn"
    FAIL = "fail"


def doctor(
    inventory: Path | None = typer.Argument(None, metavar="INVENTORY", help="Look at its nodes, over SSH."),
    inventory_option: Path | None = typer.Option(None, "-i", "--inventory", help="The same, as an option."),
    source: list[str] = typer.Option(
        [], "--from", help="Evidence FILE, DIR or TAR instead of a live look; `-` is stdin."
    ),
    limit: str | None = typer.Option(None, "--limit", "-l", help="Only hosts that this Ansible pattern selects."),
    pair: tuple[str, str] | None = typer.Option(
        None,
        "--pair",
        metavar="P D",
        help="Only these two nodes, live: hosts of INVENTORY, or SSH destinations without one.",
    ),
    select: list[str] = typer.Option([], "--select", help="Only checks whose ID begins so; may be given often."),
    ignore: list[str] = typer.Option([], "--ignore", help="Not the checks whose ID begins so."),
    policy: Path | None = typer.Option(
        None, "--policy", help="Site policy instead of `policy.yml` beside the inventory."
    ),
    fail_on: FailOn = typer.Option(FailOn.FAIL, "--fail-on", help="Exit 1 from this status on."),
    connect_timeout: float = typer.Option(
        15, "--connect-timeout", min=1, help="Seconds for one SSH connection attempt."
    ),
    timeout: float = typer.Option(
        120,
        "--timeout",
        min=5,
        help="Seconds for one node, all in all; more than 120 lets a slow node's commands run longer too.",
    ),
    waivers: Path | None = typer.Option(
        None, "--waivers", help="Waivers instead of `waivers.yml` beside the inventory."
    ),
    diff: tuple[str, str] | None = typer.Option(
        None, "--diff", metavar="A B", help="Compare two evidence sources: what changed, and what it broke."
    ),
    since_good: bool = typer.Option(
        False,
        "--since-good",
        help="Compare this host with itself at the last `up` that got ready, or INVENTORY's nodes with --keep-good.",
    ),
    keep_good: bool = typer.Option(
        False, "--keep-good", help="Keep the evidence of each node without a finding at --fail-on, for --since-good."
    ),
    fix: bool = typer.Option(False, "--fix", help="Show which roles mend what was found, run them, and look again."),
    active: bool = typer.Option(
        False, "--active", help="Also test between the nodes: DF pings, ib_write_bw, KV echo. Says the load, and asks."
    ),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask before `--fix` or `--active`."),
    become: bool = typer.Option(False, "--become", "-b", help="`--fix` becomes root on the nodes with sudo."),
    ask_become_pass: bool = typer.Option(False, "--ask-become-pass", "-K", help="Ask for the sudo password."),
    while_serving: bool = typer.Option(
        False, "--while-serving", help="`--fix` and `--active` also where an engine is active."
    ),
    symptom: str | None = typer.Option(
        None, "--symptom", help="Start from what you see, e.g. `first token never comes`."
    ),
    interval: int = typer.Option(10, "--interval", min=0, max=60, help="Seconds between two readings of counters."),
    output: ReportFormat = typer.Option(ReportFormat.TABLE, "-o", "--output", help="Format of stdout."),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="Show passes and all of the evidence."),
) -> None:
    """Say what is wrong with a node, why, and how to fix it.

    Without arguments it looks at this host. Exit codes: 0 nothing at or above --fail-on, 1 findings, 3 nodes not
    reached or nothing but unknown, or nothing judged; 2 usage. With `-o nagios` the plugin convention's 0, 1, 2, 3.
    """
    if inventory and inventory_option:
        raise UsageError("give one inventory", hint="`pdctl doctor INVENTORY` or `pdctl doctor -i INVENTORY`")
    chosen = inventory or inventory_option
    if limit is not None and chosen is None:
        raise UsageError("`--limit` chooses among the hosts of an INVENTORY", hint="give one, or leave `--limit` out")
    if pair and (source or diff or limit is not None):
        raise UsageError("`--pair P D` looks at two live nodes", hint="leave --from, --diff and --limit out")
    if pair and fix and not chosen:
        raise UsageError("`--fix` of a pair needs the INVENTORY that names both", hint="give it, or leave --fix out")
    _refuse_contradictions(chosen, source, diff, since_good, keep_good, symptom, fix, output)
    if active and (not (chosen or pair) or fix or diff or since_good):
        raise UsageError(
            "`--active` tests between the nodes of an INVENTORY, or of a --pair",
            hint="without --fix, --diff, --since-good",
        )

    from pdchecks.finding import Status
    from pdctl.diagnosis import selected, tell_unread
    from pdctl.evidence_source import Source, read_sources
    from pdctl.inventory import load_inventory, tell_warnings
    from pdctl.pair_hosts import pair_hosts
    from pdctl.policy_source import tell_unread_keys
    from pdctl.render.doctor import exit_status, put
    from pdctl.visit import Visit, symptoms_named, waivers_for

    checks = selected(select, ignore)
    named = symptoms_named(symptom)
    hosts = pair_hosts(chosen, pair) if pair else load_inventory(chosen, limit=limit) if chosen else None
    tell_warnings(hosts)
    tell_unread_keys(hosts, policy)
    visit = Visit(
        checks=checks,
        hosts=hosts,
        sources=source,
        policy=policy,
        waivers=waivers_for(hosts, waivers),
        symptoms=named,
        connect_s=connect_timeout,
        deadline_s=timeout,
        interval_s=interval,
        sudo=become_password() if ask_become_pass and not source and not diff else None,
    )
    threshold = Status(fail_on.value)
    if diff:
        before, after = (read_sources([name]) for name in diff)
        raise typer.Exit(_compare(visit, before, after, threshold, output))
    seen = visit.look()
    if active:
        visit.test(seen, yes=yes, while_serving=while_serving)
    if since_good:
        from pdctl.baseline import baseline, baselines

        good = baselines([one.node for one in seen.evidence]) if hosts else Source((baseline(),))
        raise typer.Exit(_compare(visit, good, seen, threshold, output))
    report = visit.judge(seen)
    tell_unread(seen)
    if keep_good:
        _keep(seen, report, threshold)
    if fix:
        from pdctl.fixing import mend

        code = mend(
            visit,
            seen,
            report,
            threshold,
            output,
            yes=yes,
            become=become or ask_become_pass,
            while_serving=while_serving,
            verbose=verbose,
        )
        raise typer.Exit(code)
    put(report, output, threshold, verbose=verbose)
    raise typer.Exit(exit_status(report, output, threshold))


def _refuse_contradictions(
    inventory: Path | None,
    source: list[str],
    diff: tuple[str, str] | None,
    since_good: bool,
    keep_good: bool,
    symptom: str | None,
    fix: bool,
    output: ReportFormat,
) -> None:
    if inventory and source:
        raise UsageError("`--from` reads collected evidence and INVENTORY looks at live nodes", hint="give one of them")
    comparing = "--diff" if diff else "--since-good" if since_good else ""
    if diff and (inventory or source or since_good):
        raise UsageError("`--diff A B` names both sources itself", hint="leave INVENTORY, --from and --since-good out")
    if keep_good and (comparing or fix):
        raise UsageError("`--keep-good` keeps what one look shows", hint="leave --diff, --since-good and --fix out")
    if keep_good and not inventory:
        raise UsageError("`--keep-good` is about an inventory's nodes", hint="a `pdctl up` keeps this host's by itself")
    if comparing and symptom:
        raise UsageError(f"`{comparing}` starts from what changed and `--symptom` from what you see", hint="give one")
    if comparing and output not in (ReportFormat.TABLE, ReportFormat.JSON):
        raise UsageError(f"`{comparing}` has no `-o {output.value}`", hint="use table or json")
    if fix and (source or comparing):
        raise UsageError("`--fix` mends live nodes", hint="give INVENTORY, or nothing for this host")


def _keep(seen: "Source", report: "Report", threshold: "Status") -> None:
    """Keeps the well nodes as the last known good, and says on stderr which."""
    import sys

    from pdctl.baseline import keep_nodes

    counted = [
        finding for finding in report.findings if finding.waived is None and finding.status.rank >= threshold.rank
    ]
    unwell = {name for finding in counted for name in (finding.subject.node, finding.subject.peer) if name}
    kept = keep_nodes(seen.evidence, unwell)
    print(f"kept as last known good: {', '.join(kept) or 'no node'}", file=sys.stderr)


def _compare(visit: "Visit", before: "Source", after: "Source", threshold: "Status", output: ReportFormat) -> int:
    import json

    from pdctl.comparing import comparison, exit_code
    from pdctl.render.changes import document, lines
    from pdctl.render.doctor import print_lines

    made = comparison(before, after, visit)
    if output is ReportFormat.JSON:
        typer.echo(json.dumps(document(made), ensure_ascii=False, indent=2))
    else:
        print_lines(lambda width: lines(made, width))
    return exit_code(made, before, after, threshold)
