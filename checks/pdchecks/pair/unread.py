"""What was said and not understood: it is a line of the verdict, and never silently equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pdchecks.pair.backends import READ_BEFORE, READ_SINCE
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
    yield from _releases(prefill, decode)


def _releases(prefill: Resolved, decode: Resolved) -> Iterator[PairField]:
    sides = [side for side in (prefill, decode) if isinstance(side, VllmSide)]
    newer = [side.side.version for side in sides if _newer(side)]
    if newer:
        since, last = (".".join(map(str, release)) for release in (READ_SINCE, (READ_BEFORE[0], READ_BEFORE[1] - 1)))
        reason = f"the rules were read from vLLM {since} to {last}; what {newer[0]} changed was not read"
        yield _line("vllm.version", *(_version(side) for side in (prefill, decode)), reason)


def _newer(side: VllmSide) -> bool:
    version = side.side.version
    return not isinstance(version, Unknown) and version.since(*READ_BEFORE)


def _version(side: Resolved) -> object:
    return side.side.version if isinstance(side, VllmSide) else side.side.engine


def _line(name: str, ours: object, theirs: object, reason: str) -> PairField:
    return replace(field(name, ours, theirs, PairOutcome.UNKNOWN, reason), exact=False)
