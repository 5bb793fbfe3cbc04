"""What an engine says no with. Each has the code and the HTTP status that its servers answer with."""

from typing import ClassVar, TypeVar

E = TypeVar("E", bound=BaseException)


def detached(error: E) -> E:
    """The error, for keeping: without the frames that it has passed, in whose locals a prompt's KV may lie."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


class EngineError(Exception):
    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500


class BadRequest(EngineError):
    """The call itself is wrong; the same call will be wrong again."""

    code, status = "bad_request", 400


class TooLong(EngineError):
    """Prompt and answer do not fit the model's context, or the whole cache."""

    code, status = "too_long", 400


class UnknownRequest(EngineError):
    """Never reserved here, or over."""

    code, status = "unknown_request", 404


class Aborted(EngineError):
    """Somebody took the request back."""

    code, status = "aborted", 409


class EngineBusy(EngineError):
    """A bounded queue is full."""

    code, status = "busy", 503


class NotReady(EngineError):
    """Still loading, or draining."""

    code, status = "not_ready", 503


class TransferBroken(EngineError):
    """KV did not arrive whole."""

    code, status = "transfer_failed", 502


class Incompatible(EngineError):
    """The two engines cannot work together; the message is the verdict."""

    code, status = "incompatible", 409


class DeadlinePassed(EngineError):
    code, status = "deadline", 504
