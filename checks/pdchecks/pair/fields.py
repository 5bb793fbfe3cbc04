"""One line of a pair verdict: a field, both values, what follows, whose engine would notice, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pdchecks.unknown import Unknown
from pdwire import DType, FieldVerdict, Side

ISSUE = "https://github.com/vllm-project/vllm/issues/"
PULL = "https://github.com/vllm-project/vllm/pull/"


class PairOutcome(StrEnum):
    """From best to worst for the reader. Unknown is not equal: a value could not be had from the description."""

    EQUAL = "equal"
    CONVERTIBLE = "convertible"
    WARN = "warn"
    """Works by the rules, and has been reported to fail."""
    UNKNOWN = "unknown"
    FATAL = "fatal"


class Notice(StrEnum):
    """What the engines themselves would do about a fatal field."""

    REFUSED = "refused"
    """One of them says no, before or at the handshake."""
    FAILS = "fails"
    """A crash, a hang or an error at the first request."""
    SILENT = "silent"
    """They accept it, and the answers are wrong or the transfer useless."""
    NONE = ""
    """The field is not fatal, or what they do is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairField:
    """prefill, decode: values as text. reason: why; for an unknown field what is missing. exact: no bit is lost.

    side: whose change the fix is, of pdwire.Side. fix: the flag or change. sources: URLs of what the rule stands on.
    """

    field: str
    outcome: PairOutcome
    prefill: str
    decode: str
    reason: str = ""
    exact: bool = True
    side: Side = Side.NONE
    fix: str = ""
    notice: Notice = Notice.NONE
    sources: tuple[str, ...] = ()


def from_wire(verdict: FieldVerdict, notice: Notice, sources: tuple[str, ...] = ()) -> PairField:
    """The wire's verdict on a field, as a line of the pair's. notice: counts only where it is fatal."""
    outcome = PairOutcome(verdict.outcome.value)
    return PairField(
        field=verdict.field,
        outcome=outcome,
        prefill=verdict.prefill,
        decode=verdict.decode,
        reason=verdict.reason,
        exact=verdict.exact,
        side=verdict.side,
        fix=verdict.fix,
        notice=notice if outcome is PairOutcome.FATAL else Notice.NONE,
        sources=sources if outcome is not PairOutcome.EQUAL else (),
    )


def show(value: object) -> str:
    """A value or Unknown, as a cell of the verdict."""
    if value == ():
        return "none"
    if isinstance(value, DType):
        return value.label
    return "unknown" if isinstance(value, Unknown) else str(value)


def field(
    name: str,
    prefill: object,
    decode: object,
    outcome: PairOutcome,
    reason: str = "",
    fix: str = "",
    *sources: str,
    side: Side = Side.EITHER,
    notice: Notice = Notice.FAILS,
) -> PairField:
    """A line of a rule that is not the wire's. side, notice: count where there is a fix, and where it is fatal."""
    fatal = outcome is PairOutcome.FATAL
    return PairField(
        field=name,
        outcome=outcome,
        prefill=show(prefill),
        decode=show(decode),
        reason=reason,
        exact=not fatal,
        side=side if fix else Side.NONE,
        fix=fix,
        notice=notice if fatal else Notice.NONE,
        sources=sources,
    )


def unknown_field(name: str, prefill: object, decode: object) -> PairField:
    """At least one of the two is Unknown; its reason becomes the line's."""
    reasons = dict.fromkeys(value.reason for value in (prefill, decode) if isinstance(value, Unknown))
    return PairField(
        field=name,
        outcome=PairOutcome.UNKNOWN,
        prefill=show(prefill),
        decode=show(decode),
        reason="; ".join(reasons),
        exact=False,
    )
