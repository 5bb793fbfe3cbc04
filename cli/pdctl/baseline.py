"""The last known good: this host's evidence from the moment when `up` was ready, and that of an inventory's nodes from a
look that found nothing wrong (`doctor --keep-good`). One file a node in the state directory."""

import platform
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from urllib.parse import quote

from pdchecks.evidence import Evidence, own_blocks, print_blocks, read_blocks
from pdchecks.finding import Incomplete
from pdctl.errors import PdError, UsageError
from pdctl.evidence_source import Source
from pdctl.paths import state_dir

# `up` has printed its endpoint by then, and whoever called it waits no longer than this.
_DEADLINE_S = 60


def path(node: str | None = None) -> Path:
    """None: this host's. The name of a node may hold what a file's may not."""
    name = "this-host" if node is None else f"node-{quote(node, safe='')}"
    return state_dir() / "baselines" / f"{name}.txt"


def keep() -> None:
    """Collects this host's evidence and stores it over the last one; says on stderr why, if it cannot."""
    try:
        why = _keep()
    except (OSError, PdError) as error:
        why = str(error)
    if why:
        print(f"no last known good was kept: {why}", file=sys.stderr, flush=True)


def _keep() -> str:
    """Why nothing was kept; empty when it was."""
    from pdctl.collection import collect
    from pdctl.deploy.state import write_private
    from pdctl.policy_source import policy_for

    # Counters are no part of what is compared: one reading is enough.
    (seen,) = collect(None, policy_for(), connect_s=_DEADLINE_S, deadline_s=_DEADLINE_S, interval_s=0)
    if seen.incomplete is not None:
        return seen.incomplete.reason
    path().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path(), seen.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    return ""


def keep_nodes(evidence: Sequence[Evidence], unwell: Collection[str]) -> list[str]:
    """Stores the evidence of the nodes that are not unwell over their last; the names of those that were kept."""
    from pdctl.deploy.state import write_private

    well = [one for one in evidence if one.node not in unwell]
    for one in well:
        file = path(one.node)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(file, print_blocks(one.blocks).encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    return [one.node for one in well]


def baselines(nodes: Sequence[str]) -> Source:
    """The last known good of each node; one that has none is named as incomplete. Raises UsageError where none has one."""
    source = Source()
    found: list[Evidence] = []
    for node in nodes:
        try:
            found.append(Evidence(node, tuple(own_blocks(path(node).read_text(encoding="utf-8")))))
        except FileNotFoundError:
            hint = "`pdctl doctor INVENTORY --keep-good` keeps one of each node that is well"
            source.incomplete.append(Incomplete(node, "there is no last known good of it", hint))
    if not found:
        raise UsageError(
            f"there is no last known good of {', '.join(nodes[:20]) or 'any node'}",
            hint="`pdctl doctor INVENTORY --keep-good` keeps one of each node that is well",
        )
    source.evidence = tuple(found)
    return source


def baseline() -> Evidence:
    """Raises UsageError where none was kept."""
    try:
        text = path().read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(
            "there is no last known good of this host",
            detail=f"{path()} does not exist",
            hint="a `pdctl up` that gets ready keeps one; `pdctl doctor --diff A B` compares any two sources",
        ) from error
    return Evidence(platform.node() or "localhost", tuple(read_blocks(text)))
