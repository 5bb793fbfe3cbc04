"""What looking at the nodes adds to an inventory, and where it contradicts what is declared. `discovery` looks, the rest is pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdchecks.hardware import Hardware, RdmaNic, hardware
from pdchecks.nodefacts import gather
from pdchecks.pair.gpus import find_gpu
from pdchecks.unknown import Unknown
from pdctl.exit_codes import ExitCode, worst
from pdctl.host_vars import Edit, NotWritable, edit
from pdctl.inventory import Host, Inventory

GPU_KIND, GPU_COUNT, RDMA_PORTS = "gpu_kind", "gpu_count", "rdma_ports"
VARIABLES = (GPU_KIND, GPU_COUNT, RDMA_PORTS)


@dataclass(frozen=True, slots=True)
class Discovery:
    """Of one host. found: variables as they would be written. notes: what could not be told, and why.

    failures: declared values that the node contradicts, or a file that cannot be added to; nothing of the host is written then.
    unreached: why the node could not be looked at. edit: None where there is nothing to add.
    """

    host: str
    found: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    unreached: str = ""
    edit: Edit | None = None


def discovery(
    inventory: Inventory, policy: Path | None, *, connect_s: float, deadline_s: float
) -> tuple[Discovery, ...]:
    """Looks at every node, over SSH or here."""
    from pdctl.collection import collect
    from pdctl.policy_source import policy_for
    from pdctl.variable_origin import origins

    policy_of = policy_for(inventory, policy)
    given_by = {variable: origins(inventory, variable) for variable in VARIABLES}
    found: list[Discovery] = []
    looks = collect(inventory, policy_of, connect_s=connect_s, deadline_s=deadline_s, interval_s=0)
    for host, seen in zip(inventory, looks, strict=True):
        evidence = seen.evidence
        if evidence is None or seen.incomplete:
            why = seen.incomplete.reason if seen.incomplete else "it printed nothing"
            found.append(Discovery(host.name, {}, unreached=why))
            continue
        there = hardware(gather(evidence), policy_of(host.name).values.firmware)
        origin = {variable: given_by[variable].get(host.name, "") for variable in VARIABLES}
        found.append(judged(host, there, origin, inventory.folder))
    return tuple(found)


def judged(host: Host, there: Hardware, origin: Mapping[str, str], folder: Path) -> Discovery:
    """origin: who declares each variable. folder: of the inventory."""
    found, notes = _variables(host, there)
    declared = {name: host.variables[name] for name in VARIABLES if host.variables.get(name) is not None}
    failures = [
        _contradiction(host.name, name, declared[name], value, origin.get(name, ""), there)
        for name, value in found.items()
        if name in declared and not _agrees(name, declared[name], value)
    ]
    additions = {name: value for name, value in found.items() if name not in declared}
    planned = None
    if additions and not failures:
        try:
            planned = edit(folder, host.name, additions)
        except NotWritable as error:
            failures.append(str(error))
    return Discovery(host.name, found, tuple(notes), tuple(failures), edit=planned)


def exit_code(discoveries: tuple[Discovery, ...]) -> ExitCode:
    codes = [ExitCode.INCOMPLETE for each in discoveries if each.unreached]
    codes += [ExitCode.FINDINGS for each in discoveries if each.failures]
    return worst(codes)


def _variables(host: Host, there: Hardware) -> tuple[dict[str, Any], list[str]]:
    found: dict[str, Any] = {}
    notes: list[str] = []
    if host.simulated:
        notes.append("simulated: its GPU is the declared one, and was not asked for")
    elif isinstance(there.gpu_kind, Unknown):
        notes.append(f"gpu_kind is not known: {there.gpu_kind.reason}")
    else:
        found[GPU_KIND] = there.gpu_kind
        if there.gpu_count:
            found[GPU_COUNT] = there.gpu_count
    if isinstance(there.nics, Unknown):
        notes.append(f"RDMA ports are not known: {there.nics.reason}")
    elif there.nics:
        found[RDMA_PORTS] = [_port(nic) for nic in there.nics]
    else:
        notes.append("no RDMA device")
    return found, notes


def _port(nic: RdmaNic) -> dict[str, Any]:
    """Without what is not known."""
    rate = int(nic.rate_gbps) if nic.rate_gbps is not None and nic.rate_gbps.is_integer() else nic.rate_gbps
    given = {"device": nic.device, "port": nic.port, "netdev": nic.netdev, "card": nic.card, "rate_gbps": rate}
    return {name: value for name, value in given.items() if value is not None}


def _agrees(name: str, declared: Any, found: Any) -> bool:
    """A family agrees with its boards: `h100` with h100-sxm, and the board with what only tells the family."""
    if name != GPU_KIND:
        return bool(declared == found)
    asked, seen = find_gpu(str(declared)), find_gpu(found)
    if isinstance(asked, Unknown) or isinstance(seen, Unknown):
        return False
    return asked.kinds <= seen.kinds or seen.kinds <= asked.kinds


def _contradiction(host: str, name: str, declared: Any, found: Any, origin: str, there: Hardware) -> str:
    by = f" by {origin}" if origin else ""
    called = f" ({there.gpu_name})" if name == GPU_KIND and there.gpu_name else ""
    return f"`{name}` of `{host}` is declared `{declared}`{by}, and the node has `{found}`{called}; nothing of it is written"
