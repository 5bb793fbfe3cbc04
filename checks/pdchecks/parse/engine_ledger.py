"""The ledgers of our engines, `pdserve.ledger/1`: one as `/v1/ledger` answers it, or a pair's by `pdctl kv ledger -o json`."""

import json
import re
from collections.abc import Iterator
from typing import Any

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.engine import LedgerHold, LedgerRead
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_SHAPE = re.compile(r"\"schema\": ?\"(?:pdserve|pdctl)\.ledger/1\"")
_MOST_HOLDS = 1_000


def parse(block: Block) -> list[Fact] | Unknown:
    try:
        document = json.loads(block.output)
    except (ValueError, RecursionError):
        return Unknown("the ledger is no JSON")
    if not isinstance(document, dict):
        return Unknown("the ledger is no object")
    engines = document.get("engines", [document])
    facts: list[Fact] = []
    for engine in engines if isinstance(engines, list) else ():
        if isinstance(engine, dict) and isinstance(engine.get("held"), list):
            facts += _engine(block, engine)
    return facts or Unknown("the ledger names no engine and what it holds")


def _engine(block: Block, engine: dict[str, Any]) -> Iterator[Fact]:
    role, name = str(engine.get("role", ""))[:40], str(engine.get("name", ""))[:80]
    held = [one for one in engine["held"] if isinstance(one, dict)]
    said = block.quote(f"{role} {name}: {len(held)} requests held")
    yield LedgerRead(quote=said, role=role, engine=name, requests=len(held))
    for one in held[:_MOST_HOLDS]:
        request, state, size = str(one.get("request", ""))[:80], str(one.get("state", ""))[:40], one.get("kv_bytes")
        age, left = _seconds(one.get("age_s")), _seconds(one.get("left_s"))
        yield LedgerHold(
            quote=block.quote(f"{role} {name}: {request} {state}, {str(size)[:20]} bytes, age_s {age}, left_s {left}"),
            role=role,
            engine=name,
            request=request,
            state=state,
            kv_bytes=size if isinstance(size, int) and 0 <= size < 1 << 63 else 0,
            age_s=age or 0.0,
            left_s=left,
        )


def _seconds(value: object) -> float | None:
    """Within what a lease may be; None for anything else, NaN too."""
    return float(value) if isinstance(value, int | float) and -1e12 < value < 1e12 else None


def _claims(block: Block) -> bool:
    return looks_like(block, _SHAPE)


READER = Reader("ledger", _claims, parse)
