"""What `pdctl inventory discover` found, as text and as `pdctl.inventory-discover/1`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pdctl.discovering import GPU_COUNT, GPU_KIND, RDMA_PORTS, Discovery


def lines(discoveries: Sequence[Discovery]) -> Iterator[str]:
    for each in discoveries:
        yield f"{each.host}: {each.unreached or _found(each.found)}"
        yield from (f"  note: {note}" for note in each.notes)
        yield from (f"  {line}" for failure in each.failures for line in failure.splitlines())
    edits = [each.edit for each in discoveries if each.edit]
    for change in edits:
        yield ""
        yield change.diff
    if not edits:
        yield "nothing to write"


def document(discoveries: Sequence[Discovery], *, written: bool, code: int) -> dict[str, Any]:
    return {
        "schema": "pdctl.inventory-discover/1",
        "written": written,
        "hosts": [
            {
                "name": each.host,
                "found": dict(each.found),
                "notes": list(each.notes),
                "failures": list(each.failures),
                "unreached": each.unreached or None,
                "file": str(each.edit.path) if each.edit else None,
                "diff": each.edit.diff if each.edit else None,
            }
            for each in discoveries
        ],
        "exit_code": code,
    }


def _found(found: Mapping[str, Any]) -> str:
    parts = []
    if GPU_KIND in found:
        count = f"{found[GPU_COUNT]} x " if GPU_COUNT in found else ""
        parts.append(f"{count}{found[GPU_KIND]}")
    ports = found.get(RDMA_PORTS) or []
    parts += [
        " ".join(str(value) for name, value in port.items() if name != "port") + " Gb/s" * ("rate_gbps" in port)
        for port in ports
    ]
    return ", ".join(parts) or "nothing found"
