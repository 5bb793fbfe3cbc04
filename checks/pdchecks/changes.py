"""What changed on a node between two times, most likely cause of its new faults first. Pure: two times in, changes out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pdchecks.aspects import ASPECTS, Aspect
from pdchecks.evidence import Quote
from pdchecks.finding import Finding, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True)
class Seen:
    """value: as people read it; several values that a tool printed of one object are joined. quote: the words."""

    value: str
    quote: Quote


@dataclass(frozen=True, slots=True)
class Change:
    """before, after: None where the object was not there then. behind: new faults that such a change brings about."""

    kind: str
    node: str
    object: str
    before: Seen | None
    after: Seen | None
    behind: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """changes: likeliest cause first. appeared, gone: faults of now and of then alone.

    unseen: node and kind of what only one of the two times shows, so that it was not compared. unjudged: faults of then
    of which now shows nothing, neither that they are there nor that they are gone.
    """

    changes: tuple[Change, ...]
    appeared: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    unseen: tuple[tuple[str, str], ...]
    unjudged: tuple[Finding, ...] = ()


def compare(
    before: Sequence[NodeFacts],
    after: Sequence[NodeFacts],
    found_before: Sequence[Finding],
    found_after: Sequence[Finding],
) -> Comparison:
    """Nodes are matched by name; one node at either time is one and the same, whatever its evidence is called."""
    then = {node.name: node for node in before}
    if len(before) == len(after) == 1:
        then = {after[0].name: before[0]}
        renamed = {before[0].name: after[0].name}
    else:
        renamed = {}
    was = {_key(finding, renamed) for finding in found_before if finding.fault}
    now = {_key(finding, {}) for finding in found_after if finding.fault}
    appeared = tuple(finding for finding in found_after if finding.fault and _key(finding, {}) not in was)
    past = [finding for finding in found_before if finding.fault and _key(finding, renamed) not in now]
    judged = {_key(finding, {}): finding.status is not Status.UNKNOWN for finding in found_after}
    seen = {node.name: node for node in after}
    gone = tuple(each for each in past if _looked_at(each, _key(each, renamed), judged, seen))
    changes: list[tuple[int, Change]] = []
    unseen: list[tuple[str, str]] = []
    for node in after:
        if node.name in then:
            for place, aspect in enumerate(ASPECTS):
                found, compared = _changes(aspect, then[node.name], node, appeared)
                changes += [(place, change) for change in found]
                unseen += [] if compared else [(node.name, aspect.kind)]
    changes.sort(key=lambda one: (not one[1].behind, one[0], one[1].node, one[1].object))
    unjudged = tuple(finding for finding in past if finding not in gone)
    return Comparison(tuple(change for _, change in changes), appeared, gone, tuple(unseen), unjudged)


def _key(finding: Finding, renamed: Mapping[str, str]) -> tuple[str, str, str]:
    node = finding.subject.node
    return (finding.check, renamed.get(node, node), finding.subject.object)


def _looked_at(
    finding: Finding,
    key: tuple[str, str, str],
    judged: Mapping[tuple[str, str, str], bool],
    after: Mapping[str, NodeFacts],
) -> bool:
    """Whether the second time would show the fault if it were there. judged: what the checks knew then, by key."""
    from pdchecks.registry import CHECKS

    if (known := judged.get(key)) is not None:
        return known
    tools = next((check.tools for check in CHECKS if check.id == finding.check), ())
    node = after.get(key[1])
    return node is not None and any(map(node.saw, tools))


def _changes(
    aspect: Aspect, before: NodeFacts, after: NodeFacts, appeared: Sequence[Finding]
) -> tuple[list[Change], bool]:
    """The changes of one kind, and whether both times show the kind at all (or neither does)."""
    then, now = _values(aspect, before), _values(aspect, after)
    if not then or not now:
        return [], not then and not now
    behind = tuple(
        finding
        for finding in appeared
        if after.name in (finding.subject.node, finding.subject.peer) and finding.check.startswith(aspect.checks)
    )
    return list(_differing(aspect, after.name, then, now, behind)), True


def _differing(
    aspect: Aspect, node: str, then: Mapping[str, Seen], now: Mapping[str, Seen], behind: tuple[Finding, ...]
) -> Iterator[Change]:
    for name in dict.fromkeys([*then, *now]):
        old, new = then.get(name), now.get(name)
        if (old and old.value) != (new and new.value):
            yield Change(aspect.kind, node, name, old, new, behind)


def _values(aspect: Aspect, node: NodeFacts) -> dict[str, Seen]:
    values: dict[str, dict[str, Quote]] = {}
    for name, value, quote in aspect.values(node):
        if not isinstance(value, Unknown):
            values.setdefault(name, {}).setdefault(str(value), quote)
    return {name: Seen(" or ".join(sorted(seen)), next(iter(seen.values()))) for name, seen in values.items()}
