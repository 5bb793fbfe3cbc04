"""The last known good: this host's evidence from the moment when `up` was ready, one file in the state directory."""

import platform
import sys
from pathlib import Path

from pdchecks.evidence import Evidence, read_blocks
from pdctl.errors import PdError, UsageError
from pdctl.paths import state_dir

# `up` has printed its endpoint by then, and whoever called it waits no longer than this.
_DEADLINE_S = 60


def path() -> Path:
    return state_dir() / "baselines" / "this-host.txt"


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
