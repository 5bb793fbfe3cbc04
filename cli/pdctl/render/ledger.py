"""The ledgers of a pair as a table for people."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pdctl.render.columns import columns

_HEAD = ("side", "request", "state", "KV bytes", "since", "until", "at the latest")


def table(documents: Sequence[dict[str, Any]], now: float) -> str:
    """documents: of `/v1/ledger`. now: Unix seconds."""
    totals = [f"{each['role']} {each['name']}: {_total(each)}" for each in documents]
    rows = [_row(each["role"], held, now) for each in documents for held in each["held"]]
    return "\n".join(totals + (["", *list(columns([_HEAD, *rows]))] if rows else []))


def _total(document: dict[str, Any]) -> str:
    count = document["requests"]
    if not count:
        return "holds nothing"
    return f"{count} request{'s' if count > 1 else ''}, {document['kv_bytes']:,} bytes of KV"


def _row(role: str, held: dict[str, Any], now: float) -> tuple[str, ...]:
    left = held["left_s"]
    return (
        role,
        held["request"],
        held["state"],
        f"{held['kv_bytes']:,}",
        f"{_clock(now - held['age_s'])} ({held['age_s']:.1f} s)",
        "-" if left is None else f"{_clock(now + left)} ({left:.1f} s)",
        held["ends"].replace("`", "") + (f"; to {held['peer']}" if held["peer"] else ""),
    )


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
