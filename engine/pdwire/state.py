"""What may be said when. Two tables, each with one row per state, and one function that reads them.

Rule 1: everything that decides whether a frame is in order stands in this file.
Rule 2: this file does not know which side we are. An event is (who said it, what kind), so both ends walk through the
same states, one of them a little later. Where frames can cross on their way, the row allows both orders.

The life of a request: prefill says LAYER as often as it likes and FIRST_TOKEN once, decode says COMPLETE. Where KV is
written into memory that decode shares, LOCATE comes first and is answered by PLACES. Either says
ABORT at any time; the other answers with its own ABORT, and since frames of one connection keep their order, both then
know that nothing of the request is on its way any more. A request that ended is forgotten: IDLE again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias, TypeVar

from pdwire.frames import Kind, Role

P, D = Role.PREFILL, Role.DECODE

Event: TypeAlias = tuple[Role, Kind]


class ConnectionState(Enum):
    UNPROVEN = "unproven"
    """Where there is a secret: the first state. Nothing has been said."""
    CHALLENGED = "challenged"
    HALF_PROVEN = "half proven"
    """Prefill has proved that it holds the secret, decode has not."""
    START = "start"
    """Both have, or there is no secret."""
    GREETED = "greeted"
    """Prefill has said HELLO."""
    OPEN = "open"
    CLOSED = "closed"
    """One side said BYE."""
    BROKEN = "broken"
    """Cut, silent for too long, given up with ABORT, or the protocol was broken."""

    __hash__ = object.__hash__  # as for Kind


class RequestState(Enum):
    IDLE = "idle"
    """Nothing of it has been said, or all of it."""
    STREAMING = "streaming"
    FINISHING = "finishing"
    """FIRST_TOKEN is said, COMPLETE is not."""
    ABORTED_BY_PREFILL = "aborted by prefill"
    ABORTED_BY_DECODE = "aborted by decode"

    __hash__ = object.__hash__  # as for Kind


CONNECTION: Mapping[ConnectionState, Mapping[Event, ConnectionState]] = {
    ConnectionState.UNPROVEN: {
        (D, Kind.CHALLENGE): ConnectionState.CHALLENGED,
        (P, Kind.BYE): ConnectionState.CLOSED,
        (D, Kind.BYE): ConnectionState.CLOSED,
    },
    ConnectionState.CHALLENGED: {
        (P, Kind.PROOF): ConnectionState.HALF_PROVEN,
        (P, Kind.BYE): ConnectionState.CLOSED,
        (D, Kind.BYE): ConnectionState.CLOSED,
    },
    ConnectionState.HALF_PROVEN: {
        (D, Kind.PROOF): ConnectionState.START,
        (P, Kind.BYE): ConnectionState.CLOSED,
        (D, Kind.BYE): ConnectionState.CLOSED,
    },
    ConnectionState.START: {
        (P, Kind.HELLO): ConnectionState.GREETED,
        (P, Kind.BYE): ConnectionState.CLOSED,
        (D, Kind.BYE): ConnectionState.CLOSED,
    },
    ConnectionState.GREETED: {
        (D, Kind.HELLO): ConnectionState.OPEN,
        (P, Kind.BYE): ConnectionState.CLOSED,
        (D, Kind.BYE): ConnectionState.CLOSED,
    },
    ConnectionState.OPEN: {
        (P, Kind.JOIN): ConnectionState.OPEN,
        (D, Kind.JOIN): ConnectionState.OPEN,
        (P, Kind.LOCATE): ConnectionState.OPEN,
        (D, Kind.PLACES): ConnectionState.OPEN,
        (P, Kind.LAYER): ConnectionState.OPEN,
        (P, Kind.FIRST_TOKEN): ConnectionState.OPEN,
        (D, Kind.COMPLETE): ConnectionState.OPEN,
        (D, Kind.CREDIT): ConnectionState.OPEN,
        (P, Kind.ABORT): ConnectionState.OPEN,
        (D, Kind.ABORT): ConnectionState.OPEN,
        (P, Kind.PING): ConnectionState.OPEN,
        (D, Kind.PING): ConnectionState.OPEN,
        (P, Kind.BYE): ConnectionState.CLOSED,
        (D, Kind.BYE): ConnectionState.CLOSED,
    },
    ConnectionState.CLOSED: {},
    ConnectionState.BROKEN: {},
}
"""ABORT here is that of one request. ABORT of the whole connection is allowed in every state and leads to BROKEN."""

REQUEST: Mapping[RequestState, Mapping[Event, RequestState]] = {
    RequestState.IDLE: {
        (P, Kind.LOCATE): RequestState.STREAMING,
        (P, Kind.LAYER): RequestState.STREAMING,
        (P, Kind.FIRST_TOKEN): RequestState.FINISHING,
        (P, Kind.ABORT): RequestState.ABORTED_BY_PREFILL,
        (D, Kind.ABORT): RequestState.ABORTED_BY_DECODE,
    },
    RequestState.STREAMING: {
        (D, Kind.PLACES): RequestState.STREAMING,
        (P, Kind.LAYER): RequestState.STREAMING,
        (P, Kind.FIRST_TOKEN): RequestState.FINISHING,
        (P, Kind.ABORT): RequestState.ABORTED_BY_PREFILL,
        (D, Kind.ABORT): RequestState.ABORTED_BY_DECODE,
    },
    RequestState.FINISHING: {
        (D, Kind.PLACES): RequestState.FINISHING,
        (D, Kind.COMPLETE): RequestState.IDLE,
        (P, Kind.ABORT): RequestState.ABORTED_BY_PREFILL,
        (D, Kind.ABORT): RequestState.ABORTED_BY_DECODE,
    },
    RequestState.ABORTED_BY_PREFILL: {
        (D, Kind.ABORT): RequestState.IDLE,
        (D, Kind.PLACES): RequestState.ABORTED_BY_PREFILL,
        (D, Kind.COMPLETE): RequestState.ABORTED_BY_PREFILL,
    },
    RequestState.ABORTED_BY_DECODE: {
        (P, Kind.ABORT): RequestState.IDLE,
        (P, Kind.LOCATE): RequestState.ABORTED_BY_DECODE,
        (P, Kind.LAYER): RequestState.ABORTED_BY_DECODE,
        (P, Kind.FIRST_TOKEN): RequestState.ABORTED_BY_DECODE,
    },
}

CONNECTION_DEADLINE: Mapping[ConnectionState, str] = {
    ConnectionState.UNPROVEN: "hello_s",
    ConnectionState.CHALLENGED: "hello_s",
    ConnectionState.HALF_PROVEN: "hello_s",
    ConnectionState.START: "hello_s",
    ConnectionState.GREETED: "hello_s",
    ConnectionState.OPEN: "idle_s",
}
"""The field of Limits after which the state leads to BROKEN. Counted from the last frame heard; HELLOs from the start.

States that are missing here are ends: nothing waits in them.
"""

REQUEST_DEADLINE: Mapping[RequestState, str] = {
    RequestState.STREAMING: "request_s",
    RequestState.FINISHING: "complete_s",
    RequestState.ABORTED_BY_PREFILL: "abort_s",
    RequestState.ABORTED_BY_DECODE: "abort_s",
}
"""After request_s and complete_s the side that notices says ABORT; after abort_s the connection is BROKEN.

IDLE holds nothing and so waits for nothing.
"""

UNPROVEN = frozenset({ConnectionState.UNPROVEN, ConnectionState.CHALLENGED, ConnectionState.HALF_PROVEN})
"""States in which a peer is a stranger."""

OWN_ABORT: Mapping[Role, RequestState] = {
    P: RequestState.ABORTED_BY_PREFILL,
    D: RequestState.ABORTED_BY_DECODE,
}

_State = TypeVar("_State", ConnectionState, RequestState)


def advance(table: Mapping[_State, Mapping[Event, _State]], state: _State, role: Role, kind: Kind) -> _State | None:
    """The state after `role` has said `kind`, or None where it may not."""
    return table[state].get((role, kind))


def may_say(state: RequestState, role: Role, kind: Kind) -> bool:
    """Whether `role` may say it, given what it has heard. Who has heard the peer's ABORT answers that and no more: the
    other events of that row are for frames that were on their way when the ABORT was said."""
    heard_abort = state is OWN_ABORT[role.peer]
    return advance(REQUEST, state, role, kind) is not None and (kind is Kind.ABORT or not heard_abort)
