"""A value that could not be had, with the reason. It is never a default and never equal to a value."""

from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unknown:
    """reason: one line for a person, e.g. `ibstat printed no firmware line`."""

    reason: str


def known(value: T | Unknown) -> T | None:
    """The value, or None where it is unknown: for tests such as `if (mtu := known(port.mtu)) is not None`."""
    return None if isinstance(value, Unknown) else value


def reason(value: object) -> str:
    """Why the value is unknown; empty where it is known."""
    return value.reason if isinstance(value, Unknown) else ""
