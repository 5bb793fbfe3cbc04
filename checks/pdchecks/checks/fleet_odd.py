"""The one node that is not like the others of its kind."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pdchecks.aspects import ASPECTS, Aspect
from pdchecks.check import FleetCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.facts.gpu import Gpu
from pdchecks.facts.rdma import RdmaDevice
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown

_LEAST = 3
# So many of a kind must agree before the rest is odd.
_SHARE = 2 / 3
_MOST_NAMED = 4
_ABSENT = "(absent)"
# What differs from node to node by nature is left out; what seldom matters is told, and no warning.
_KINDS = {
    **dict.fromkeys(("MTU", "QoS", "firmware", "driver", "kernel", "option", "GPU mode", "PCIe link"), Status.WARN),
    **dict.fromkeys(("setting", "module", "package", "locale"), Status.INFO),
}

_Values = Mapping[str, tuple[str, Quote]]


def judge(nodes: Sequence[tuple[NodeFacts, Policy]]) -> Iterator[Verdict]:
    kinds: dict[tuple[frozenset[str], frozenset[str]], list[NodeFacts]] = {}
    for node, _ in nodes:
        kinds.setdefault(_hardware(node), []).append(node)
    for alike in kinds.values():
        if len(alike) >= _LEAST:
            found = [verdict for aspect in ASPECTS if aspect.kind in _KINDS for verdict in _odd(aspect, alike)]
            yield from found
            if not found and any(_values(aspect, alike[0]) for aspect in ASPECTS if aspect.kind in _KINDS):
                said = f"{len(alike)} nodes of one kind are alike"
                yield Verdict(Status.PASS, "nodes of one kind", said, node=alike[0].name)


def _hardware(node: NodeFacts) -> tuple[frozenset[str], frozenset[str]]:
    """What makes nodes comparable: the kinds of their GPUs and of their cards."""
    names = (gpu.fields.get("name") for gpu in node.all(Gpu))
    parts = (device.part for device in node.all(RdmaDevice))
    return (
        frozenset(str(name) for name in names if name is not None and not isinstance(name, Unknown)),
        frozenset(str(part) for part in parts if not isinstance(part, Unknown)),
    )


def _odd(aspect: Aspect, nodes: Sequence[NodeFacts]) -> Iterator[Verdict]:
    values = {node.name: _values(aspect, node) for node in nodes}
    # A node of which the kind was not seen at all is not odd in it.
    values = {name: seen for name, seen in values.items() if seen}
    if len(values) < _LEAST:
        return
    odd: dict[str, list[tuple[str, str, str]]] = {}
    for thing in dict.fromkeys(thing for seen in values.values() for thing in seen):
        count = Counter(seen[thing][0] if thing in seen else _ABSENT for seen in values.values())
        usual, share = count.most_common(1)[0]
        if share < len(values) * _SHARE:
            continue
        for name, seen in values.items():
            value = seen[thing][0] if thing in seen else _ABSENT
            if value != usual:
                odd.setdefault(name, []).append((thing, value, usual))
    for name, differences in odd.items():
        yield _verdict(aspect, name, differences, values)


def _verdict(
    aspect: Aspect, name: str, differences: Sequence[tuple[str, str, str]], values: Mapping[str, _Values]
) -> Verdict:
    shown = "; ".join(f"{thing} {value}, others {usual}" for thing, value, usual in differences[:_MOST_NAMED])
    more = f"; {len(differences) - _MOST_NAMED} more" if len(differences) > _MOST_NAMED else ""
    thing, _, usual = differences[0]
    like = next((n for n, seen in values.items() if (seen[thing][0] if thing in seen else _ABSENT) == usual), name)
    quotes = tuple(values[node][thing][1] for node in (name, like) if thing in values[node])
    return Verdict(
        _KINDS[aspect.kind],
        aspect.kind,
        f"differs from {len(values) - 1} nodes of its kind: {shown}{more}",
        "A node that is not like its siblings behaves otherwise under the same load, and is the first suspect where "
        "only pairs with it are slow or fail.",
        quotes,
        (f"pdctl doctor --diff <evidence of {like}> <evidence of {name}>",),
        Remedy(f"Bring {name} to what the others have, or the others to it, and look again."),
        node=name,
    )


def _values(aspect: Aspect, node: NodeFacts) -> dict[str, tuple[str, Quote]]:
    """One value an object; of several that tools printed, the first."""
    found: dict[str, tuple[str, Quote]] = {}
    for thing, value, quote in aspect.values(node):
        if not isinstance(value, Unknown):
            found.setdefault(thing, (str(value), quote))
    return found


CHECK = FleetCheck(
    id="PD-FLEET-001",
    topic="fleet.odd",
    title="A node differs from the others of its kind",
    severity=Severity.MEDIUM,
    tools=("ethtool", "ibv_devinfo", "uname", "modprobe"),
    sources=("https://github.com/deepseek-ai/DeepEP/issues/38", "https://github.com/ROCm/cvs/pull/376"),
    judge=judge,
)
