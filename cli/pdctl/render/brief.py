"""A doctor's report in a few lines: counts, what fails, and the commands that tell the rest."""

import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pdchecks.finding import Status

_WIDTH = 90


def brief(document: Mapping[str, Any]) -> list[str]:
    """document: of `pdctl doctor -o json`, about this host."""
    counts = Counter(Status(finding["status"]) for finding in document["findings"])
    counted = ", ".join(f"{counts[status]} {status.value}" for status in reversed(Status) if counts[status])
    lines = [f"of this host: {counted or 'nothing to judge'}"]
    for finding in document["findings"]:
        if finding["status"] == Status.FAIL:
            shown = textwrap.shorten(finding["summary"], _WIDTH, placeholder=" ...")
            lines.append(f"FAIL  {finding['check']}  {shown}")
    lines += [f"incomplete: {each['node']}: {each['reason']}" for each in document["incomplete"]]
    return [*lines, "`pdctl doctor` shows all of it with remedies, `pdctl explain ID` explains one"]
