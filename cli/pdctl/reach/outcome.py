"""What came of reaching a node."""

from dataclasses import dataclass

MAX_OUTPUT_BYTES = 64 << 20
"""Of one node. A collector prints a few hundred KiB; a node that prints more than this is not believed."""


@dataclass(frozen=True, slots=True)
class Reached:
    """output: what the script printed, undecodable bytes kept as surrogates."""

    node: str
    output: str


@dataclass(frozen=True, slots=True)
class Unreached:
    """reason: one line for a person. output: what had arrived by then."""

    node: str
    reason: str
    output: str = ""


Outcome = Reached | Unreached
