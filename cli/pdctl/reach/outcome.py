"""What came of reaching a node."""

from dataclasses import dataclass

MAX_OUTPUT_BYTES = 64 << 20
"""Of one node. A collector prints a few hundred KiB; a node that prints more than this is not believed."""

LATE = "give it more time with --timeout, or look on the node for what hangs (`ps -eo pid,stat,args | grep ' D'`)"
"""What to do about a script that did not end."""


@dataclass(frozen=True, slots=True)
class Reached:
    """output: what the script printed, undecodable bytes kept as surrogates."""

    node: str
    output: str


@dataclass(frozen=True, slots=True)
class Unreached:
    """reason: one line for a person. output: what had arrived by then. hint: what to do about it."""

    node: str
    reason: str
    output: str = ""
    hint: str = ""


Outcome = Reached | Unreached
