"""What `pdctl inventory validate` found, as text and as `pdctl.inventory-validate/1`."""

from collections.abc import Iterator, Sequence
from typing import Any

from pdctl.inventory import Inventory
from pdctl.inventory_faults import Fault
from pdctl.inventory_judgement import Judgement
from pdctl.provisioning.fitness import Fitness


def document(inventory: Inventory, judgement: Judgement, looks: Sequence[Fitness] | None, code: int) -> dict[str, Any]:
    """looks: None where no node was looked at."""
    return {
        "schema": "pdctl.inventory-validate/1",
        "hosts": [host.name for host in inventory],
        "faults": [_fault(fault) for fault in judgement.faults],
        "warnings": list(judgement.warnings),
        "nodes": None if looks is None else [_node(look) for look in looks],
        "exit_code": code,
    }


def lines(inventory: Inventory, judgement: Judgement, looks: Sequence[Fitness] | None) -> Iterator[str]:
    for warning in judgement.warnings:
        yield f"warning: {warning}"
    for fault in judgement.faults:
        yield f"wrong: {fault.text}"
        yield f"  hint: {fault.hint}"
    for look in looks or ():
        yield f"{look.host}: {'fit' if look.fit else look.why}"
    yield _last(inventory, judgement, looks)


def _last(inventory: Inventory, judgement: Judgement, looks: Sequence[Fitness] | None) -> str:
    if judgement.faults:
        return f"{len(judgement.faults)} fault(s) in {len(inventory)} host(s); no node was looked at"
    if looks is None:
        return f"{len(inventory)} host(s), no fault as it is written; --live looks at the nodes"
    return f"{sum(look.fit for look in looks)} of {len(looks)} node(s) fit to be provisioned; nothing was touched"


def _fault(fault: Fault) -> dict[str, Any]:
    return {"hosts": list(fault.hosts), "message": fault.text, "hint": fault.hint}


def _node(look: Fitness) -> dict[str, Any]:
    return {"name": look.host, "reached": look.reached, "fit": look.fit, "why": look.why or None}
