"""What was said and not understood: it is a line of the verdict, and never silently equal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from pdchecks.pair.backends import READ_BEFORE, READ_SINCE
from pdchecks.pair.command import option_json
from pdchecks.pair.fields import PairField, PairOutcome, field
from pdchecks.pair.side import Resolved
from pdchecks.pair.vllm import VllmSide
from pdchecks.unknown import Unknown

ABSENT = "not given"

_OF_OTHER_RULES: dict[str, Callable[[VllmSide], object]] = {
    "pipeline-parallel-size": lambda side: side.pp_size,
    "speculative-config": lambda side: side.speculative,
    "hybrid_kv_cache_manager": lambda side: side.hybrid_manager,
}
"""Read by NIXL's rules alone."""


def unread_fields(prefill: Resolved, decode: Resolved, moved_by: str | None) -> Iterator[PairField]:
    """Options that differ and that no rule looks at, files that were not read, releases that no rule was read from."""
    for name in sorted(prefill.unread.keys() | decode.unread.keys()):
        ours, theirs = prefill.unread.get(name, ABSENT), decode.unread.get(name, ABSENT)
        if name == "config":
            reason = "the file that `--config` names was not read; paste its options in its place"
            yield _line("config", ours, theirs, reason)
        elif ours != theirs:
            yield _line(name, ours, theirs, f"what `--{name}` does to KV was not read")
    if moved_by != "nixl" and isinstance(prefill, VllmSide) and isinstance(decode, VllmSide):
        for name, value in _OF_OTHER_RULES.items():
            if value(prefill) != value(decode):
                by = "another way of moving KV" if moved_by is None else moved_by
                reason = f"what a difference of it does to KV moved by {by} was not read"
                yield _line(name, value(prefill), value(decode), reason)
    yield from _overrides(prefill, decode)
    yield from _releases(prefill, decode)


def _overrides(prefill: Resolved, decode: Resolved) -> Iterator[PairField]:
    """Those that change what is read of config.json are lines of their own; the others change K and V all the same."""
    ours, theirs = (
        option_json(side.side.options, "hf-overrides") if isinstance(side, VllmSide) else {}
        for side in (prefill, decode)
    )
    if ours != theirs and prefill.kv == decode.kv:
        cells = (json.dumps(one, sort_keys=True) if one else ABSENT for one in (ours, theirs))
        prefill_cell, decode_cell = cells
        reason = "no key in which they differ is among those of config.json that were read"
        yield _line(
            "hf-overrides", prefill_cell, decode_cell, f"what `--hf-overrides` does to KV was not read: {reason}"
        )


def _releases(prefill: Resolved, decode: Resolved) -> Iterator[PairField]:
    sides = [side for side in (prefill, decode) if isinstance(side, VllmSide)]
    newer = [side.side.version for side in sides if _newer(side)]
    if newer:
        since, last = (".".join(map(str, release)) for release in (READ_SINCE, (READ_BEFORE[0], READ_BEFORE[1] - 1)))
        reason = f"the rules were read from vLLM {since} to {last}; what {newer[0]} changed was not read"
        yield _line("vllm.version", _version(prefill), _version(decode), reason)


def _newer(side: VllmSide) -> bool:
    version = side.side.version
    return not isinstance(version, Unknown) and version.since(*READ_BEFORE)


def _version(side: Resolved) -> object:
    return side.side.version if isinstance(side, VllmSide) else side.side.engine


def _line(name: str, ours: object, theirs: object, reason: str) -> PairField:
    return replace(field(name, ours, theirs, PairOutcome.UNKNOWN, reason), exact=False)
