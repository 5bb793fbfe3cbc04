"""What the fake transport can be told to do to the frames that pass: a list of rules, and a seed.

A rule is a fault and the frames that it is for. The first rule that wants a frame has it. The same rules, seed and
frames give the same faults, so a failure that a storm found can be had again.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from pdwire import HEAD_BYTES, Kind, Role


@dataclass(frozen=True, slots=True)
class Drop:
    """The frame never arrives."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The frame, and all that its side says after it, arrives `seconds` later."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reorder:
    """The frame arrives after the next one of its side, or after at_most_s when there is none."""

    at_most_s: float = 0.05


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The frame arrives twice."""


@dataclass(frozen=True, slots=True)
class Corrupt:
    """One bit arrives flipped. bit: of the whole frame, its head included; by default any one of its body."""

    bit: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Both ends are reset once `after` bytes of the frame have passed; by default any number but all of them."""

    after: int | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """From this frame on nothing arrives, either way, and nobody is told."""


Fault: TypeAlias = Drop | Delay | Reorder | Duplicate | Corrupt | Cut | Stall


@dataclass(frozen=True, slots=True)
class Passing:
    """A frame on its way. number: which one of its side's, on its connection, from 0. connection: which one of the link's, from 0.
    length: in bytes, head included.
    """

    said_by: Role
    kind: Kind
    request: bytes
    number: int
    connection: int
    length: int


@dataclass(slots=True)
class Rule:
    """Which frames a fault is for: those that agree with every field that is not None.

    skip: how many of them pass first. times: how many it is done to, None for all. chance: of each.
    """

    fault: Fault
    said_by: Role | None = None
    kind: Kind | None = None
    request: bytes | None = None
    connection: int | None = None
    skip: int = 0
    times: int | None = None
    chance: float = 1.0

    def wants(self, frame: Passing) -> bool:
        return all(
            want is None or want == got
            for want, got in (
                (self.said_by, frame.said_by),
                (self.kind, frame.kind),
                (self.request, frame.request),
                (self.connection, frame.connection),
            )
        )


class Script:
    """Without rules nothing is done to any frame. Thread-safe; rules may come and go while frames pass.

    done: how often each fault was done, by its name.
    """

    def __init__(self, rules: Iterable[Rule] = (), *, seed: int = 0) -> None:
        self.done: Counter[str] = Counter()
        self._rules = list(rules)
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def add(self, rule: Rule) -> None:
        with self._lock:
            self._rules.append(rule)

    def behave(self) -> None:
        """Forgets all rules."""
        with self._lock:
            self._rules.clear()

    def judge(self, frame: Passing) -> Fault | None:
        """The fault to do to this frame, with every random choice in it made."""
        with self._lock:
            for rule in self._rules:
                if rule.times == 0 or not rule.wants(frame):
                    continue
                if rule.skip:
                    rule.skip -= 1
                elif rule.chance >= 1.0 or self._random.random() < rule.chance:
                    if rule.times is not None:
                        rule.times -= 1
                    self.done[type(rule.fault).__name__.lower()] += 1
                    return self._choose(rule.fault, frame)
            return None

    def _choose(self, fault: Fault, frame: Passing) -> Fault:
        match fault:
            case Corrupt(None):
                first = HEAD_BYTES if frame.length > HEAD_BYTES else 0
                return Corrupt(self._random.randrange(8 * first, 8 * frame.length))
            case Cut(None):
                return Cut(self._random.randrange(frame.length))
            case _:
                return fault
