"""Live progress on stderr: a table that updates itself on a terminal, one line a host and change elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from pdctl.printable import printable
from pdctl.provisioning.outcome import Fold, Step
from pdctl.provisioning.run import Watch

_REDRAWS_PER_SECOND = 8
_MOST_ROWS = 40


@contextlib.contextmanager
def progress() -> Iterator[Watch]:
    if sys.stderr.isatty():
        with _live() as watch:
            yield watch
    else:
        yield _lines()


def _lines() -> Watch:
    began = time.monotonic()

    def watch(_fold: Fold, step: Step | None) -> None:
        if step is not None:
            line = f"{time.monotonic() - began:7.1f} s  {step.host}  {step.word}  {step.text}"
            print(printable(line), file=sys.stderr, flush=True)

    return watch


@contextlib.contextmanager
def _live() -> Iterator[Watch]:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=_REDRAWS_PER_SECOND, transient=True) as live:

        def watch(fold: Fold, _step: Step | None) -> None:
            live.update(_table(fold))

        yield watch


def _table(fold: Fold) -> Any:
    """Hosts that still move come first, since a screen may not hold all."""
    from rich.table import Table
    from rich.text import Text

    table = Table("host", "changed", box=None, pad_edge=False)
    table.add_column("now", no_wrap=True, overflow="ellipsis")
    stopped = [host for host in fold.hosts.values() if host.failure or host.unreachable is not None or host.problems]
    moving = [host for host in fold.hosts.values() if host not in stopped]
    for host in [*stopped, *moving][:_MOST_ROWS]:
        now = host.unreachable or (host.failure.message if host.failure else fold.current.get(host.name, "waiting"))
        # Not as markup: a message may well say `[/etc/x]`.
        cells = (host.name, str(len(host.changes)), next(iter(now.splitlines()), ""))
        table.add_row(*(Text(printable(cell)) for cell in cells))
    hidden = len(fold.hosts) - _MOST_ROWS
    if hidden > 0:
        table.add_row(f"and {hidden} more", "", "")
    return table
