"""The one exception that reaches the user, and how it reads: what happened, why, what to do."""

from pdctl.exit_codes import ExitCode
from pdctl.printable import printable


class PdError(Exception):
    """A failure with an explanation.

    message: what happened, one line. detail: why (may be several lines). hint: what to do next.
    """

    def __init__(
        self, message: str, *, detail: str | None = None, hint: str | None = None, code: ExitCode = ExitCode.FAILED
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.code = code

    def render(self) -> str:
        lines = [f"error: {self.message}"]
        if self.detail:
            lines += [f"  {line}" for line in self.detail.splitlines()]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return printable("\n".join(lines))


class UsageError(PdError):
    """The command line, a configuration file or an inventory is wrong."""

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, detail=detail, hint=hint, code=ExitCode.USAGE)
