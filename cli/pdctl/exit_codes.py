"""Every exit code of pdctl, in one enum. Codes of tools that pdctl runs (ansible, ssh) are never passed through."""

from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    DONE = 0
    FINDINGS = 1
    USAGE = 2
    INCOMPLETE = 3
    PARTLY = 4
    FAILED = 5
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        return _MEANING[self]


_MEANING = {
    ExitCode.DONE: "done, or nothing failed",
    ExitCode.FINDINGS: "findings at or above --fail-on",
    ExitCode.USAGE: "usage: the command line, a configuration file or an inventory is wrong",
    ExitCode.INCOMPLETE: "incomplete: nodes unreachable or evidence missing",
    ExitCode.PARTLY: "partly done, or failed and rolled back",
    ExitCode.FAILED: "failed and not rolled back",
    ExitCode.INTERRUPTED: "interrupted",
}

# Where a command's outcome is none of the words above.
OF_COMMANDS = {
    "doctor": "1 findings at or above --fail-on (default: fail); 3 a node not reached, nothing but unknown, or "
    "nothing judged",
    "collect": "3 a node not reached, or not collected as a whole",
    "lint": "1 flagged at or above --fail-on (default: warn); 3 a file was not read",
    "env": "1 no port of the node can carry RoCE v2 between hosts; 3 a node not reached",
    "inventory": "validate: 1 a node is not fit, 3 a node not reached; discover: 1 a node contradicts the inventory, 3 a "
    "node not reached",
    "pair": "0 they fit; 1 they do not (with --fail-on warn: or a report says so); 3 what decides it is not known",
    "status": "0 ready; 1 degraded or failed; 3 nothing is deployed, or it is starting",
    "provision": "3 nodes unfit (refused before anything was touched), unreachable, held by another run, not "
    "verified, or not all tasks ran; 4 settings refused or unproven; 5 a task failed (with --check: 3)",
    "runs": "3 a part of the record cannot be read; resume: as provision, and 2 where what it stood on has changed; "
    "rollback: as provision, and 5 where a node was changed again since",
    "demo": "0 the tokens are equal; 1 they are not",
}
SEVERAL = "When several apply, the first of 130, 5, 4, 3, 1 wins."

_PRECEDENCE = (
    ExitCode.INTERRUPTED,
    ExitCode.FAILED,
    ExitCode.PARTLY,
    ExitCode.INCOMPLETE,
    ExitCode.FINDINGS,
    ExitCode.USAGE,
    ExitCode.DONE,
)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """The code to exit with when several apply; `DONE` for none."""
    return min(codes, key=_PRECEDENCE.index, default=ExitCode.DONE)
