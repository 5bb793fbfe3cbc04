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
