"""record.json of a deployment, `pdctl.deployment/1`: what was asked for."""

import json
import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.deployment import Deployed
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_SHAPE = re.compile(r"\"schema\": ?\"pdctl\.deployment/1\"")
# Ports and paths of a run are not what somebody asked for.
_SETTINGS = ("dtype", "security", "transport", "chunk_tokens", "block_tokens", "host")


def parse(block: Block) -> list[Fact] | Unknown:
    try:
        record = json.loads(block.output)
    except (ValueError, RecursionError):
        return Unknown("the record of a deployment is no JSON")
    if not isinstance(record, dict):
        return Unknown("the record of a deployment is no object")
    settings = {key: str(record[key])[:200] for key in _SETTINGS if isinstance(record.get(key), str | int)}
    units = record.get("units")
    for unit in units if isinstance(units, list) else ():
        if isinstance(unit, dict) and isinstance(unit.get("role"), str):
            for key in ("gpu_kind", "device", "threads"):
                if isinstance(unit.get(key), str | int):
                    settings[f"{unit['role'][:40]}.{key}"] = str(unit[key])[:200]
    name, model = str(record.get("name", ""))[:80], str(record.get("model_name", ""))[:200]
    if not name or not model:
        return Unknown("the record of a deployment names neither it nor its model")
    shown = " ".join(f"{key}={value}" for key, value in settings.items())
    return [Deployed(quote=block.quote(f"{name}: {model} {shown}"), deployment=name, model=model, settings=settings)]


def _claims(block: Block) -> bool:
    return looks_like(block, _SHAPE)


READER = Reader("pdctl deployment", _claims, parse)
