"""What a bundle says about its nodes. Written by `bundle`, read back from a stranger's file here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pdchecks.finding import Incomplete

SCHEMA = "pdctl.bundle/1"
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 16 << 20
MAX_NAME = 253


@dataclass(frozen=True, slots=True)
class Entry:
    """One node of a bundle. file: the member that holds its evidence, empty where there is none."""

    node: str
    file: str
    incomplete: Incomplete | None
    policy: Mapping[str, Any]


def read_manifest(data: str) -> tuple[Entry, ...] | None:
    """The nodes of a bundle; None where the file is no manifest of ours. Values of a wrong kind are left out."""
    if len(data) > MAX_MANIFEST_BYTES:
        return None
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return None
    rows = document.get("nodes")
    return tuple(_entry(row) for row in (rows if isinstance(rows, list) else []) if _named(row))


def _named(row: object) -> bool:
    name = row.get("node") if isinstance(row, dict) else None
    return isinstance(name, str) and name.isprintable() and 0 < len(name) <= MAX_NAME


def _entry(row: Mapping[str, Any]) -> Entry:
    texts = {key: row[key] if isinstance(row.get(key), str) else "" for key in ("node", "file", "reason", "hint")}
    missing = Incomplete(texts["node"], texts["reason"], texts["hint"]) if texts["reason"] else None
    policy = row.get("policy")
    return Entry(texts["node"], texts["file"], missing, policy if isinstance(policy, dict) else {})
