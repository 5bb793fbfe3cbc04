"""Which request of a connection is in which state since when: the REQUEST table of `state`, once for each request."""

from __future__ import annotations

from collections.abc import Iterator

from pdwire.errors import WireError
from pdwire.frames import Abort, AbortCode, Kind, Role
from pdwire.limits import Limits
from pdwire.state import OWN_ABORT, REQUEST, REQUEST_DEADLINE, RequestState, advance


class Requests:
    """Only requests that are not idle take memory."""

    def __init__(self) -> None:
        self._states: dict[bytes, tuple[RequestState, float]] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[tuple[bytes, RequestState, float]]:
        """Request, state, and when it was last confirmed or entered."""
        for request, (state, since) in self._states.items():
            yield request, state, since

    def state(self, request: bytes) -> RequestState:
        entry = self._states.get(request)
        return RequestState.IDLE if entry is None else entry[0]

    def following(self, role: Role, request: bytes, kind: Kind, most: int, error: type[WireError]) -> RequestState:
        """The state after `role` says `kind` for it. most: requests that decode takes at a time. Changes nothing."""
        current = self.state(request)
        following = advance(REQUEST, current, role, kind)
        if following is None:
            raise error(f"{role} may not say {kind.name.lower()} for request {request.hex()}, which is {current.value}")
        starts = current is RequestState.IDLE and kind is not Kind.ABORT
        if starts and len(self._states) >= most:
            raise error(f"request {request.hex()} is one more than the {most} that decode takes at a time")
        return following

    def enter(self, request: bytes, state: RequestState, now: float) -> None:
        if state is RequestState.IDLE:
            self._states.pop(request, None)
            return
        entry = self._states.get(request)
        if entry is not None and entry[0] is state and state in OWN_ABORT.values():
            return  # What was still on its way does not keep an aborted request alive.
        self._states[request] = (state, now)

    def overdue(self, limits: Limits, now: float) -> list[Abort]:
        """The ABORTs to say for requests whose next frame did not come in time."""
        aborts = []
        for request, state, since in self:
            name = REQUEST_DEADLINE[state]
            allowed = getattr(limits, name)
            if state not in OWN_ABORT.values() and now - since > allowed:
                reason = f"{state.value} without another frame for {allowed:g} s ({name})"
                aborts.append(Abort(request=request, code=AbortCode.DEADLINE, reason=reason))
        return aborts
