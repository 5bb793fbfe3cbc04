"""`pdctl env`: which RDMA devices, GID and traffic class a node's libraries should use, as an environment file."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdctl.errors import PdError, UsageError

if TYPE_CHECKING:
    from pdctl.inventory import Inventory


class Output(StrEnum):
    ENV = "env"
    JSON = "json"


def env(
    node: str = typer.Argument("", metavar="[NODE]", help="The node; this host, or the only one of the evidence."),
    peer: list[str] = typer.Option([], "--peer", help="A node that it talks to; may be given often."),
    inventory: Path | None = typer.Option(None, "-i", "--inventory", help="Look at the nodes over SSH."),
    source: list[str] = typer.Option([], "--from", help="Evidence FILE, DIR or TAR instead; `-` is stdin."),
    policy: Path | None = typer.Option(
        None, "--policy", help="Site policy instead of `policy.yml` beside the inventory."
    ),
    connect_timeout: float = typer.Option(15, "--connect-timeout", min=1, help="Seconds for one SSH connection."),
    timeout: float = typer.Option(120, "--timeout", min=5, help="Seconds for one node, all in all."),
    output: Output = typer.Option(Output.ENV, "-o", "--output", help="Format of stdout."),
) -> None:
    """Print NCCL_, UCX_ and MC_ variables for a node, each with its reason.

    Exit codes: 0 printed, 1 no port of the node can carry RoCE v2 between hosts, 2 usage, 3 node not reached.
    """
    import json

    from pdchecks.nodefacts import gather
    from pdchecks.pins import pins
    from pdctl.diagnosis import look
    from pdctl.evidence_source import read_sources
    from pdctl.exit_codes import ExitCode
    from pdctl.policy_source import policy_for
    from pdctl.render.pins import document, environment_file

    hosts = _hosts(inventory, source, node, peer)
    if source:
        seen = read_sources(source)
    else:
        every = policy_for(hosts, policy)
        seen = look(hosts, every, connect_s=connect_timeout, deadline_s=timeout, interval_s=0)
    if not source and seen.incomplete:
        why = "\n".join(f"{entry.node}: {entry.reason}" for entry in seen.incomplete)
        raise PdError("not all nodes could be looked at", detail=why, code=ExitCode.INCOMPLETE)
    policy_of = policy_for(hosts, policy, seen.policy)
    facts = {one.node: gather(one) for one in seen.evidence}
    name = node or next(iter(facts))
    if not node and len(facts) > 1 + len(peer):
        raise UsageError(
            "which node?", detail=f"the evidence has {', '.join(facts)}", hint="name one: `pdctl env NODE`"
        )
    for wanted in (name, *peer):
        if wanted not in facts:
            raise UsageError(f"no evidence of node `{wanted}`", hint=f"it has {', '.join(facts)}")
    made = pins(facts[name], policy_of(name), [facts[one] for one in peer])
    if not made.rails:
        raise PdError(
            f"no RDMA port of {name} can carry RoCE v2 between hosts",
            detail="\n".join(f"{port}: {why}" for port, why in made.left_out) or "the evidence shows no GID",
            hint="`pdctl doctor --select PD-GID --select PD-LINK` says why and what to do"
            if made.left_out
            else "a node without RDMA needs none of these; else see `rdma link show`, and give evidence that has `show_gids`",
            code=ExitCode.FINDINGS,
        )
    typer.echo(json.dumps(document([made]), indent=2) if output is Output.JSON else environment_file(made))


def _hosts(inventory: Path | None, source: list[str], node: str, peer: list[str]) -> "Inventory | None":
    """The hosts to look at; None for this one, or for evidence."""
    from pdctl.inventory import load_inventory, tell_warnings

    if inventory and source:
        raise UsageError("`--from` reads collected evidence and `-i` looks at live nodes", hint="give one of them")
    if inventory and not node:
        raise UsageError("which node of the inventory?", hint="`pdctl env NODE -i INVENTORY`")
    if not inventory and not source and (node or peer):
        raise UsageError("where is that node?", hint="give `-i INVENTORY`, or `--from` with its evidence")
    hosts = load_inventory(inventory, limit=":".join([node, *peer])) if inventory else None
    tell_warnings(hosts)
    return hosts
