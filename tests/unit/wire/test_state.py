"""The state tables, enumerated: every state has a way out and a deadline, and no order of two sides' frames sticks."""

from __future__ import annotations

from collections import deque
from dataclasses import fields

import pytest

from pdwire import Kind, Limits, Role
from pdwire.state import (
    CONNECTION,
    CONNECTION_DEADLINE,
    OWN_ABORT,
    REQUEST,
    REQUEST_DEADLINE,
    UNPROVEN,
    ConnectionState,
    RequestState,
    advance,
    may_say,
)

ENDS = {ConnectionState.CLOSED, ConnectionState.BROKEN}
DEADLINES = {field.name for field in fields(Limits) if field.name.endswith("_s")}


def test_every_state_has_its_row() -> None:
    assert set(CONNECTION) == set(ConnectionState)
    assert set(REQUEST) == set(RequestState)


def test_every_connection_state_but_the_ends_has_a_deadline() -> None:
    assert set(CONNECTION_DEADLINE) == set(ConnectionState) - ENDS
    assert set(CONNECTION_DEADLINE.values()) <= DEADLINES
    assert all(not CONNECTION[state] for state in ENDS)


def test_every_request_state_that_holds_something_has_a_deadline() -> None:
    assert set(REQUEST_DEADLINE) == set(RequestState) - {RequestState.IDLE}
    assert set(REQUEST_DEADLINE.values()) <= DEADLINES


@pytest.mark.parametrize("state", [state for state in ConnectionState if state not in ENDS])
def test_every_connection_state_leads_to_an_end(state: ConnectionState) -> None:
    assert ENDS & reachable(CONNECTION, state)


@pytest.mark.parametrize("state", RequestState)
def test_every_request_state_leads_back_to_idle(state: RequestState) -> None:
    assert RequestState.IDLE in {*REQUEST[state].values()} | reachable(REQUEST, state)


@pytest.mark.parametrize("state", [state for state in RequestState if state is not RequestState.IDLE])
def test_either_side_can_end_every_request_state(state: RequestState) -> None:
    for role in Role:
        if state is not OWN_ABORT[role]:
            assert may_say(state, role, Kind.ABORT)


def test_every_state_is_reachable() -> None:
    assert reachable(CONNECTION, ConnectionState.UNPROVEN) | ENDS == set(ConnectionState) - {ConnectionState.UNPROVEN}
    proven = set(ConnectionState) - UNPROVEN - {ConnectionState.START}
    assert reachable(CONNECTION, ConnectionState.START) | ENDS == proven, "without a secret nobody proves anything"
    assert reachable(REQUEST, RequestState.IDLE) == set(RequestState)


def reachable(table, state):  # type: ignore[no-untyped-def]
    seen, todo = set(), [state]
    while todo:
        for following in table[todo.pop()].values():
            if following not in seen:
                seen.add(following)
                todo.append(following)
    return seen


IN_FLIGHT = 5


def test_no_interleaving_of_the_two_sides_breaks_the_protocol_or_gets_stuck() -> None:
    """Every order in which frames of one request can be said and heard, up to five on their way in each direction.

    A world is what each side believes and what is on its way between them. Whatever a side may say, the other must be
    able to hear when it arrives; and from every world both sides can come to rest with nothing on its way.
    """
    start: World = (RequestState.IDLE, RequestState.IDLE, (), ())
    following: dict[World, set[World]] = {}
    todo = deque([start])
    while todo:
        world = todo.popleft()
        if world in following:
            continue
        following[world] = set(worlds_after(world))
        todo.extend(following[world])
    assert {prefill for prefill, _, _, _ in following} == set(RequestState)
    at_rest = {start}
    while True:
        more = {world for world, nexts in following.items() if world not in at_rest and nexts & at_rest}
        if not more:
            break
        at_rest |= more
    assert at_rest == set(following), "some world cannot come to rest"


World = tuple[RequestState, RequestState, tuple[Kind, ...], tuple[Kind, ...]]
SAYS = {Role.PREFILL: (Kind.LAYER, Kind.FIRST_TOKEN, Kind.ABORT), Role.DECODE: (Kind.COMPLETE, Kind.ABORT)}


def worlds_after(world: World) -> list[World]:
    prefill, decode, forth, back = world
    after: list[World] = []
    for kind in SAYS[Role.PREFILL]:
        if len(forth) < IN_FLIGHT and may_say(prefill, Role.PREFILL, kind):
            after.append((moved(prefill, Role.PREFILL, kind), decode, (*forth, kind), back))
    for kind in SAYS[Role.DECODE]:
        if len(back) < IN_FLIGHT and may_say(decode, Role.DECODE, kind):
            after.append((prefill, moved(decode, Role.DECODE, kind), forth, (*back, kind)))
    if forth:
        after.append((prefill, moved(decode, Role.PREFILL, forth[0]), forth[1:], back))
    if back:
        after.append((moved(prefill, Role.DECODE, back[0]), decode, forth, back[1:]))
    return after


def moved(state: RequestState, role: Role, kind: Kind) -> RequestState:
    following = advance(REQUEST, state, role, kind)
    assert following is not None, f"{role} said {kind.name}, and the other side, {state.value}, cannot hear it"
    return following
