"""Readings of serving engines, one beside the other: what happened between the last two of the same engine."""

from collections.abc import Sequence
from dataclasses import dataclass

from pdchecks.facts.engine import EngineMetrics
from pdchecks.nodefacts import NodeFacts


@dataclass(frozen=True, slots=True)
class Engine:
    """before: the reading before the last, None where there is one only, or where the process began anew in between."""

    last: EngineMetrics
    before: EngineMetrics | None = None

    def value(self, field: str) -> float | None:
        return self.last.values.get(field)

    def counts(self, *fields: str) -> tuple[float, ...]:
        """Of these counters, what they grew by between the last two readings; since the process began, where none grew.
        0 for one that there is not.
        """
        now = tuple(self.last.values.get(field, 0.0) for field in fields)
        if self.before is None:
            return now
        then = self.before.values
        grown = tuple(value - then.get(field, 0.0) for field, value in zip(fields, now, strict=True))
        return grown if any(grown) else now

    @property
    def idle(self) -> bool:
        """No request runs or waits, by its last reading."""
        return self.value("running") == 0 and not self.value("waiting")


_GAUGES = ("running", "waiting", "deferred", "kv_usage", "blocks", "blocks_free")


def engines(node: NodeFacts) -> Sequence[Engine]:
    """Every engine of which a reading is there, in the order of the evidence."""
    readings: dict[str, list[EngineMetrics]] = {}
    for fact in node.all(EngineMetrics):
        readings.setdefault(fact.name, []).append(fact)
    return [Engine(these[-1], _before(these)) for these in readings.values()]


def _before(readings: Sequence[EngineMetrics]) -> EngineMetrics | None:
    if len(readings) < 2:
        return None
    then, now = readings[-2], readings[-1]
    fell = any(now.values.get(field, 0.0) < value for field, value in then.values.items() if field not in _GAUGES)
    return None if fell else then
