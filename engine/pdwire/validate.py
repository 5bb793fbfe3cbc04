"""Range checks of values, shared by everything that is built here or parsed from a peer.

They raise LocalProtocolError; a parser turns that into RemoteProtocolError, because then the peer is the author.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TypeVar

from pdwire.errors import LocalProtocolError, RemoteProtocolError

E = TypeVar("E", bound=Enum)

REQUEST_BYTES = 16
CONNECTION = bytes(REQUEST_BYTES)
"""The request id of frames that speak for the whole connection."""


def shown(value: object) -> str:
    """For messages: what a peer says must not fill a log."""
    try:
        text = repr(value)
    except ValueError:
        text = "an integer of too many digits to print"
    return text if len(text) <= 80 else text[:77] + "..."


def integer(name: str, value: object, low: int, high: int) -> int:
    if type(value) is int and low <= value <= high:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise LocalProtocolError(f"{name} must be an integer: {shown(value)}")
    if not low <= value <= high:
        raise LocalProtocolError(f"{name} must be {low} to {high}: {shown(value)}")
    return value


def finite(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LocalProtocolError(f"{name} must be a number: {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise LocalProtocolError(f"{name} must be finite")
    return number


def text(name: str, value: object, longest: int, *, empty: bool = False) -> str:
    """Printable only: peers' texts go into logs, where a line break would forge a line."""
    if not isinstance(value, str):
        raise LocalProtocolError(f"{name} must be text: {shown(value)}")
    if len(value) > longest:
        raise LocalProtocolError(f"{name} must be at most {longest} characters: {shown(value)}")
    if not value.isprintable() or not (value or empty):
        raise LocalProtocolError(f"{name} must be printable{'' if empty else ' and not empty'}: {shown(value)}")
    return value


def member(name: str, enum: type[E], value: object) -> E:
    try:
        return enum._value2member_map_[value]  # type: ignore[return-value]
    except (KeyError, TypeError):
        raise LocalProtocolError(f"unknown {name}: {shown(value)}") from None


def request_id(value: object) -> bytes:
    """16 opaque bytes, chosen by the router, unique while the request lives."""
    if not isinstance(value, bytes) or len(value) != REQUEST_BYTES:
        raise LocalProtocolError(f"request id must be {REQUEST_BYTES} bytes: {shown(value)}")
    if value == CONNECTION:
        raise LocalProtocolError("request id must not be all zero, which names the connection")
    return value


def exactly(name: str, value: object, size: int) -> bytes:
    if not isinstance(value, bytes) or len(value) != size:
        raise LocalProtocolError(f"{name} must be {size} bytes")
    return value


@contextmanager
def authored_by_peer() -> Iterator[None]:
    """Inside, a value out of range is the peer's fault."""
    try:
        yield
    except LocalProtocolError as error:
        raise RemoteProtocolError(str(error)) from None
