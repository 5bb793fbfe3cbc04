"""One side of a pair: as described, and as an engine would resolve it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pdchecks.pair.command import Options
from pdchecks.pair.fields import PairField
from pdchecks.pair.gpus import GpuChoice
from pdchecks.pair.version import Version
from pdchecks.unknown import Unknown
from pdwire import Conversion, Role
from pdwire.kvmodel import KvModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What its user has. model: the name or path that the engine is told. config: the parsed config.json.

    weights, tokenizer: digests or revisions, opaque, compared as text. host: where it runs. isa: of a CPU engine.
    """

    role: Role
    engine: str
    version: Version | Unknown
    gpu: GpuChoice | Unknown
    model: str | Unknown
    config: Mapping[str, Any]
    weights: str | Unknown
    tokenizer: str | Unknown
    options: Options
    env: Mapping[str, str]
    host: str | Unknown
    nixl: Version | Unknown
    isa: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What the engine makes of it. connector: what moves the KV, `pdctl` or the name of a vLLM connector.

    fields: of pdwire.CompatRecord, each a value or Unknown; `name` and `protocol` are not among them.
    faults: why this side would not start, or not work, whatever its peer is. can: what it converts on the way.
    unread: options that may matter and that nothing looks at, by name.
    """

    side: Side
    kv: KvModel
    connector: str
    fields: Mapping[str, object]
    faults: tuple[PairField, ...] = ()
    can: frozenset[Conversion] = frozenset()
    unread: Mapping[str, str] = field(default_factory=dict)
