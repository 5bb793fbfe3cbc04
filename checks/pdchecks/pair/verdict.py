"""The verdict on a pair: which rules apply to what moves its KV, and what their lines amount to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pdchecks.pair.bundled import resolve_bundled
from pdchecks.pair.command import DescriptionError
from pdchecks.pair.contract import MODEL_FIELDS, NOT_DESCRIBED, contract_fields
from pdchecks.pair.fields import Notice, PairField, PairOutcome, field, unknown_field
from pdchecks.pair.nixl import hash_fields, hash_notice
from pdchecks.pair.nixl_checks import run_time_fields
from pdchecks.pair.reports import NIXL_REPORTS, REPORTS
from pdchecks.pair.side import Resolved, Side
from pdchecks.pair.unread import unread_fields
from pdchecks.pair.vllm import VllmSide, resolve_vllm
from pdchecks.unknown import Unknown, known
from pdwire import FIELDS

ENGINES = {"torch": resolve_bundled, "vllm": resolve_vllm}
NIXL_CONNECTORS = ("NixlConnector", "NixlPullConnector", "NixlPushConnector")


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """moved_by: `pdctl`, `nixl`, or another connector's name. fields: in the order of the rules."""

    prefill: Resolved
    decode: Resolved
    moved_by: str
    fields: tuple[PairField, ...]

    @property
    def outcome(self) -> PairOutcome:
        """The gravest of all fields; equal where they all are."""
        found = {one.outcome for one in self.fields}
        return max(found, key=tuple(PairOutcome).index, default=PairOutcome.EQUAL)

    @property
    def engines(self) -> Notice:
        """What the engines themselves would make of it; the loudest, since what refuses does not go on to be silent."""
        notices = {one.notice for one in self.fields if one.outcome is PairOutcome.FATAL}
        return next((notice for notice in Notice if notice in notices), Notice.NONE)

    @property
    def silent(self) -> tuple[PairField, ...]:
        """What the engines would accept, and answer wrongly."""
        return tuple(one for one in self.fields if one.notice is Notice.SILENT)


def pair_verdict(prefill: Side, decode: Side) -> PairVerdict:
    """Pure. Raises DescriptionError, or pdwire.kvmodel.ConfigError where a config.json is no language model's."""
    ours, theirs = _resolve(prefill), _resolve(decode)
    moved_by = _moved_by(ours, theirs)
    faults = (*ours.faults, *theirs.faults)
    both_vllm = isinstance(ours, VllmSide) and isinstance(theirs, VllmSide)
    lines: list[PairField] = []
    if moved_by is None:
        reason = "the two move KV in different ways and cannot talk to each other"
        fix = "name one connector on both (`--kv-transfer-config`), or none, and let `pdctl up` choose"
        lines.append(field("connector", ours.connector, theirs.connector, PairOutcome.FATAL, reason, fix))
    if moved_by == "pdctl":
        judged = tuple(name for name in FIELDS if name not in NOT_DESCRIBED)
        lines += contract_fields(ours, theirs, judged, {})
    elif moved_by == "nixl" and isinstance(ours, VllmSide) and isinstance(theirs, VllmSide):
        hashed = hash_notice(ours, theirs, "model")
        notices = dict.fromkeys(MODEL_FIELDS, Notice.SILENT) | dict.fromkeys(("layers", "kv_heads", "head_dim"), hashed)
        lines += contract_fields(ours, theirs, (*MODEL_FIELDS, "isa_layout"), notices | {"isa_layout": Notice.SILENT})
        lines += hash_fields(ours, theirs)
        lines += run_time_fields(ours, theirs)
        for report in NIXL_REPORTS:
            lines += report(ours, theirs)
    else:
        lines += contract_fields(ours, theirs, MODEL_FIELDS, dict.fromkeys(MODEL_FIELDS, Notice.NONE))
        if moved_by is not None:
            unread = Unknown(f"what {moved_by} checks and converts was not read")
            lines.append(unknown_field("connector", unread, unread))
    lines += _gpu(ours, theirs)
    lines += unread_fields(ours, theirs, moved_by)
    if both_vllm:
        for report in REPORTS:
            lines += report(ours, theirs)  # type: ignore[arg-type]
    return PairVerdict(ours, theirs, moved_by or "nothing", _gravest((*faults, *lines)))


def _gravest(lines: Sequence[PairField]) -> tuple[PairField, ...]:
    """One line for one field: where two rules speak of one, the graver."""
    found: dict[str, PairField] = {}
    for line in lines:
        before = found.get(line.field)
        if before is None or tuple(PairOutcome).index(before.outcome) < tuple(PairOutcome).index(line.outcome):
            found[line.field] = line
    return tuple(found.values())


def _gpu(prefill: Resolved, decode: Resolved) -> Iterator[PairField]:
    """Two generations have different kernels behind one backend's name."""
    ours, theirs = prefill.side.gpu, decode.side.gpu
    if isinstance(ours, Unknown) or isinstance(theirs, Unknown) or ours.boards == theirs.boards:
        return
    if known(ours.compute_capability) is None or ours.compute_capability != theirs.compute_capability:
        yield replace(field("gpu", ours, theirs, PairOutcome.CONVERTIBLE, _NEAR_TIES), exact=False)


_NEAR_TIES = "their kernels round differently: tokens can differ where two candidates nearly tie"


def _resolve(side: Side) -> Resolved:
    resolver = ENGINES.get(side.engine)
    if resolver is None:
        raise DescriptionError(f"{side.role}: no engine {side.engine!r} (there are: {', '.join(ENGINES)})")
    return resolver(side)


def _moved_by(prefill: Resolved, decode: Resolved) -> str | None:
    """None when the two ends would not find each other."""
    kinds = {_kind(prefill), _kind(decode)}
    return kinds.pop() if len(kinds) == 1 else None


def _kind(side: Resolved) -> str:
    names = (side.connector, *side.children) if isinstance(side, VllmSide) else (side.connector,)
    return "nixl" if any(name in NIXL_CONNECTORS for name in names) else side.connector
