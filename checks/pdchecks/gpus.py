"""What was read of each GPU, put together: several queries, tables and reports speak of the same one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pdchecks.evidence import Quote
from pdchecks.facts.gpu import Gpu, GpuProcess
from pdchecks.nodefacts import NodeFacts
from pdchecks.unknown import Unknown

_BUS = re.compile(r"(?:[0-9A-Fa-f]{4,8}:)?(?P<rest>[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)")


@dataclass(frozen=True, slots=True)
class Device:
    """name: as people call it, `GPU 0` where its index is known. fields: by --query-gpu's names; keys: all its names."""

    name: str
    keys: frozenset[str]
    fields: Mapping[str, str | Unknown]
    quotes: Mapping[str, Quote]

    def known(self, field: str) -> str | None:
        value = self.fields.get(field)
        return value if isinstance(value, str) else None

    def number(self, field: str) -> int | None:
        match = re.match(r"(\d{1,15})(?: MiB)?\s*$", self.known(field) or "")
        return int(match[1]) if match else None

    def quote(self, *fields: str) -> tuple[Quote, ...]:
        return tuple(dict.fromkeys(self.quotes[field] for field in fields if field in self.quotes))


def devices(node: NodeFacts) -> list[Device]:
    """In the order in which they were first seen."""
    groups: list[tuple[set[str], list[Gpu]]] = []
    for gpu in node.all(Gpu):
        keys = _keys(gpu)
        touching = [group for group in groups if group[0] & keys]
        merged = (
            set(keys).union(*(group[0] for group in touching)),
            [g for group in touching for g in group[1]] + [gpu],
        )
        at = groups.index(touching[0]) if touching else len(groups)
        groups = [group for group in groups if group not in touching]
        groups.insert(at, merged)
    return [_device(keys, gpus) for keys, gpus in groups]


def processes(node: NodeFacts, known: list[Device]) -> dict[str, list[GpuProcess]]:
    """Processes by the name of their GPU; one process on one GPU once."""
    names = {key: device.name for device in known for key in device.keys}
    found: dict[str, dict[object, GpuProcess]] = {}
    for process in node.all(GpuProcess):
        name = names.get(_canonical(process.gpu), process.gpu)
        key = process.pid if isinstance(process.pid, int) else object()
        rows = found.setdefault(name, {})
        if not isinstance(rows.get(key, process).used_mib, int) or key not in rows:
            rows[key] = process
    return {name: list(rows.values()) for name, rows in found.items()}


def _keys(gpu: Gpu) -> frozenset[str]:
    index, uuid, bus = (gpu.fields.get(name) for name in ("index", "uuid", "pci.bus_id"))
    keys = {f"GPU {index}"} if isinstance(index, str) else set()
    keys |= {_canonical(value) for value in (uuid, bus) if isinstance(value, str)}
    return frozenset(keys or {gpu.label})


def _canonical(name: str) -> str:
    """A bus address without its domain, which nvidia-smi writes with eight digits and sysfs with four."""
    match = _BUS.fullmatch(name)
    return match["rest"].lower() if match else name


def _device(keys: set[str], gpus: list[Gpu]) -> Device:
    fields: dict[str, str | Unknown] = {}
    quotes: dict[str, Quote] = {}
    for gpu in gpus:
        for field, value in gpu.fields.items():
            if field not in fields or isinstance(fields[field], Unknown):
                fields[field], quotes[field] = value, gpu.quote
    indexed = next((key for key in sorted(keys) if re.fullmatch(r"GPU \d{1,3}", key)), None)
    return Device(indexed or gpus[0].label, frozenset(keys), fields, quotes)
