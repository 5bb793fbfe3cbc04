"""What looking at the nodes adds to an inventory, and where it contradicts what is declared. `discovery` looks, the rest is pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pdchecks.hardware import Hardware, RdmaNic, hardware
from pdchecks.nodefacts import gather
from pdchecks.pair.gpus import find_gpu
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown
from pdctl.exit_codes import ExitCode, worst
from pdctl.host_vars import Edit, NotWritable, edit
from pdctl.inventory import Host, Inventory

GPU_KIND, GPU_COUNT, RDMA_PORTS = "gpu_kind", "gpu_count", "rdma_ports"
VARIABLES = (GPU_KIND, GPU_COUNT, RDMA_PORTS)
# Of one node, all in all.
_DEADLINE_S = 120.0


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
    from pdctl.policy_source import policy_for
    from pdctl.variable_origin import origins

    given_by = {variable: origins(inventory, variable) for variable in VARIABLES}
    found: list[Discovery] = []
    for host, there in _looked(inventory, policy_for(inventory, policy), connect_s=connect_s, deadline_s=deadline_s):
        if isinstance(there, Unknown):
            found.append(Discovery(host.name, {}, unreached=there.reason))
            continue
        origin = {variable: given_by[variable].get(host.name, "") for variable in VARIABLES}
        found.append(judged(host, there, origin, inventory.folder))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Kinds:
    """Of declared GPU kinds. wrong: host -> in what the node differs. untold: host -> why nobody can tell."""

    wrong: Mapping[str, str]
    untold: Mapping[str, str]


def compare_kinds(inventory: Inventory, *, connect_s: float, sudo: str | None) -> Kinds:
    """Looks at each host that declares a GPU kind and is no stand-in. sudo: as of `collect`."""
    from pdctl.policy_source import policy_for
    from pdctl.variable_origin import origins

    hosts = tuple(host for host in inventory if host.variables.get(GPU_KIND) is not None and not host.simulated)
    if not hosts:
        return Kinds({}, {})
    given_by = origins(inventory, GPU_KIND)
    declared = replace(inventory, hosts=hosts)
    looks = _looked(declared, policy_for(inventory), connect_s=connect_s, deadline_s=_DEADLINE_S, sudo=sudo)
    wrong: dict[str, str] = {}
    untold: dict[str, str] = {}
    for host, there in looks:
        told = compared(host, there, given_by.get(host.name, ""))
        if isinstance(told, Unknown):
            untold[host.name] = told.reason
        elif told:
            wrong[host.name] = told
    return Kinds(wrong, untold)


def compared(host: Host, there: Hardware | Unknown, origin: str) -> str | Unknown:
    """In what the node differs from the GPU kind that the host declares; empty where it agrees. origin: who declares it."""
    if isinstance(there, Unknown):
        return there
    declared, found = host.variables[GPU_KIND], there.gpu_kind
    if isinstance(found, Unknown):
        return found
    if _agrees(GPU_KIND, declared, found):
        return ""
    return f"`{GPU_KIND}` {_differs(GPU_KIND, declared, found, origin, there)}; a stand-in says `simulated: true`"


def _looked(
    inventory: Inventory,
    policy_of: Callable[[str], Policy],
    *,
    connect_s: float,
    deadline_s: float,
    sudo: str | None = None,
) -> Iterator[tuple[Host, Hardware | Unknown]]:
    from pdctl.collection import collect

    looks = collect(inventory, policy_of, connect_s=connect_s, deadline_s=deadline_s, interval_s=0, sudo=sudo)
    for host, seen in zip(inventory, looks, strict=True):
        evidence = seen.evidence
        if evidence is None or seen.incomplete:
            yield host, Unknown(seen.incomplete.reason if seen.incomplete else "it printed nothing")
        else:
            yield host, hardware(gather(evidence), policy_of(host.name).values.firmware)


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
    differs = _differs(name, declared, found, origin, there)
    return f"`{name}` of `{host}` {differs}; nothing of it is written"


def _differs(name: str, declared: Any, found: Any, origin: str, there: Hardware) -> str:
    by = f" by {origin}" if origin else ""
    called = f" ({there.gpu_name})" if name == GPU_KIND and there.gpu_name else ""
    return f"is declared `{declared}`{by}, and the node has `{found}`{called}"
