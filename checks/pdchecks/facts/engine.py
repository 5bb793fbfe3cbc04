"""What serving engines count of themselves, and what they say that they hold."""

from collections.abc import Mapping
from dataclasses import dataclass

from pdchecks.evidence import Quote
from pdchecks.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMetrics(Fact):
    """One reading of one engine's /metrics. program: pdserve, vllm or sglang. where: host:port, or the command
    where that names it better; empty where neither is known.

    unit: the role of a pdserve process, or the number of the engine within its server. values: by the names of
    `parse/engine_metrics.py`. lines: by the same names, as printed.
    """

    program: str
    where: str
    unit: str
    values: Mapping[str, float]
    lines: Mapping[str, str]

    @property
    def name(self) -> str:
        return " ".join(part for part in (self.program, self.unit, self.where and f"at {self.where}") if part)

    def quotes(self, *fields: str) -> tuple[Quote, ...]:
        """The printed lines of those fields that there are."""
        return tuple(Quote(self.quote.command, self.lines[field][:400]) for field in fields if field in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRead(Fact):
    """The ledger of one engine of ours was read. requests: how many it holds KV for."""

    role: str
    engine: str
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerHold(Fact):
    """KV held for one request. kv_bytes: bytes. age_s: seconds since it was taken on. left_s: seconds until its lease ends,
    None where an event ends it.
    """

    role: str
    engine: str
    request: str
    state: str
    kv_bytes: int
    age_s: float
    left_s: float | None
