"""What `pdctl kv inspect` prints: frames, requests, and what is wrong with them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pdctl.render.columns import columns
from pdwire import Abort, FirstToken, Hello, LayerFrame
from pdwire.inspect import Examined, Inspection, Told

MOST_FAULTS = 50
"""Of the frames of one request that are shown."""

_TRANSFERS = ("ended", "request", "prompt", "layers", "frames", "again", "KV bytes", "seconds", "GB/s", "outcome")


def frame_line(one: Examined) -> str:
    kind = one.kind.name if one.kind is not None else "?"
    line = f"{one.offset:>12}  {one.length:>10}  {kind:<11}  {_words(one)}".rstrip()
    return "\n".join([line, *(f"{'':>12}  FAULT {fault}" for fault in one.faults)])


def _words(one: Examined) -> str:
    match one.frame:
        case LayerFrame() as frame:
            shape = f"[{frame.count}, {frame.kv_heads}, {frame.head_dim}] {frame.dtype.label}"
            return (
                f"{frame.request.hex()} layer {frame.layer} tokens {frame.first_token}..{frame.end_token - 1} {shape}"
            )
        case FirstToken() as frame:
            return f"{frame.request.hex()} token {frame.token} after {frame.prompt_tokens} prompt tokens"
        case Hello() as frame:
            record = frame.record
            shape = f"{record.layers} layers, {record.kv_heads} KV heads, head size {record.head_dim}"
            return f"{record.name}: {record.engine} {record.engine_version}, {shape}, {record.dtype.label}"
        case Abort() as frame:
            return f"{frame.request.hex()} {frame.code.name}: {frame.reason}"
        case _:
            return one.request.hex() if any(one.request) else ""


def summary(inspection: Inspection, faults: int, hidden: int = 0) -> str:
    """hidden: of the faults of frames, how many were not shown."""
    lines = [_request(told) for told in inspection.requests.values()]
    lines += [f"{hidden} faults are not shown: at most {MOST_FAULTS} of one request are"] if hidden else []
    lines += [f"FAULT {fault}" for fault in inspection.faults]
    total = faults + len(inspection.faults)
    verdict = "every frame verified, every shape as agreed" if not total else f"{total} fault{'s' if total > 1 else ''}"
    return "\n".join([*lines, f"{len(inspection.requests)} requests; {verdict}"])


def _request(told: Told) -> str:
    again = f", {told.again} of them again" if told.again else ""
    end = told.ended or "no end in this file"
    return f"request {told.request.hex()}: {told.frames} frames{again}, {told.body_bytes:,} bytes; {end}"


def document(one: Examined) -> dict[str, Any]:
    """For `-o json`: one object a frame."""
    return {
        "offset": one.offset,
        "length": one.length,
        "kind": one.kind.name if one.kind is not None else None,
        "request": one.request.hex() if any(one.request) else None,
        "text": _words(one),
        "faults": list(one.faults),
    }


def transfers(answer: dict[str, Any]) -> str:
    """answer: of `/v1/transfers`."""
    rows = [_TRANSFERS, *_rows(answer["transfers"])]
    return "\n".join(columns(rows)) if len(rows) > 1 else f"{answer['name']}: no transfer yet"


def _rows(kept: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for one in kept:
        yield (
            time.strftime("%H:%M:%S", time.localtime(one["at"])),
            one["request"],
            str(one["prompt_tokens"]),
            str(one["layers"]),
            str(one["frames"]),
            str(one["resent"]),
            f"{one['kv_bytes']:,}",
            f"{one['seconds']:.4f}",
            "-" if one["gb_per_s"] is None else f"{one['gb_per_s']:.3f}",
            one["failure"] or "whole and verified",
        )
