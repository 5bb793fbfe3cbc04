"""KV transfers between nodes that hold no model."""

from dataclasses import dataclass

from pdchecks.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class KvEcho(Fact):
    """One end of a `pdctl kv echo`. size: bytes; seconds: 0 where not printed. failure: empty where it went well.

    to, by: the other node, where this end sent or listened; empty outside of an active test.
    """

    size: int
    seconds: float
    failure: str
    to: str = ""
    by: str = ""
