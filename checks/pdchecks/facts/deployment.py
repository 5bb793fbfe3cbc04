"""A deployment that runs on the node itself, as its supervisor writes it down."""

from collections.abc import Mapping
from dataclasses import dataclass

from pdchecks.facts.base import Fact
from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedUnit(Fact):
    """One process of a deployment. state: the supervisor's word; pid: 0 where it has none."""

    deployment: str
    role: str
    state: str
    reason: str
    restarts: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary(Fact):
    """The last question with a known answer. wrong: it was answered, and otherwise."""

    deployment: str
    passed: bool
    wrong: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveProcesses(Fact):
    """Of the processes that were asked about, those that live."""

    pids: frozenset[int] | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed(Fact):
    """What was asked of a deployment, without defaults left open. settings: by name, e.g. dtype, transport."""

    deployment: str
    model: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCommand(Fact):
    """The command line of an engine. flags: by name without dashes; one without a value is `on`."""

    unit: str
    flags: Mapping[str, str]
