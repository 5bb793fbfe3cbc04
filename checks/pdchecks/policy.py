"""The policy: expected values, loaded from the one YAML file that pdctl names, with a site's overrides on top.

Layers, later wins, key by key: the shipped file; `policy.yml` beside the inventory; the host variable `pdctl_policy`.
A list or a scalar replaces; a mapping merges. Roles resolve by the same rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from pdchecks import policy_types as types
from pdchecks import yaml_text
from pdchecks.given_file import read_given
from pdchecks.wrong_value import wrong_value

_MAX_BYTES = 1 << 20


class PolicyError(ValueError):
    """A policy file is unreadable, or a value in it has the wrong type or is out of range. The message names the origin and the key."""


class _Section(BaseModel):
    # Roles read keys of their own from the same file.
    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class Mtu(_Section):
    roce: types.RoceMtu
    netdev: types.NetdevMtu


class Cnp(_Section):
    dscp: types.Dscp
    priority: types.Priority


class Gids(_Section):
    subnets: list[types.Subnet]


class Ecn(_Section):
    notification_point: bool
    reaction_point: bool


class Fabric(_Section):
    rails: list[types.Netdev]
    addresses: dict[types.Netdev, types.InterfaceAddresses]
    mtu: Mtu
    trust: Literal["dscp", "pcp"]
    lossless_priority: types.Priority
    dscp: types.Dscp
    cnp: Cnp
    dcbx: Literal["os", "firmware"]
    global_pause: bool
    ecn: Ecn
    cable_length_m: types.Metres
    gid: Gids


class Confirm(_Section):
    window_s: types.DaySeconds


class SwitchEcn(_Section):
    min_bytes: types.Count | None
    max_bytes: types.Count | None
    probability_percent: types.Percent | None


class PfcWatchdog(_Section):
    detection_ms: types.Count | None
    restoration_ms: types.Count | None
    action: Literal["drop", "forward"]


class Switch(_Section):
    mtu: types.SwitchMtu | None
    ecn: SwitchEcn
    roce_bandwidth_percent: types.SomePercent | None
    pfc_watchdog: PfcWatchdog


class Family(_Section):
    prefix: types.Count
    parts: list[types.PciId]
    minimum: types.Version | None
    recommended: types.Version | None
    source: str | None = None


class Firmware(_Section):
    vendor_psids: list[str]
    families: dict[str, Family]


class Locale(_Section):
    candidates: list[types.LocaleName]
    charmap: types.KernelName


class Limits(_Section):
    memlock: types.Limit
    nofile: types.Limit


class HugePages(_Section):
    pages: types.Count | None


class Modules(_Section):
    load: list[types.KernelName]
    options: dict[types.KernelName, dict[types.KernelName, Any]]
    devlink: dict[types.KernelName, Any]


class Neighbour(_Section):
    reachable_floor_ms: types.Count


class UnitsOfFamily(_Section):
    packages: list[types.PackageName]
    units: list[types.UnitName]


class Time(_Section):
    servers: list[types.ServerName]
    within_s: types.DaySeconds


class Context(_Section):
    ghost_min_mib: types.Count
    ghost_max_mib: types.Count


class GpuPolicy(_Section):
    persistence: bool
    # nvidia-smi(1), -c.
    compute_mode: Literal["Default", "Exclusive_Process", "Prohibited"] | None
    peer_memory: bool
    context: Context


class Engine(_Section):
    wheelhouse: str | None
    peers: list[types.Subnet]


class Serving(_Section):
    failed_warn: types.SomeShare
    failed_fail: types.SomeShare
    at_least: types.SomeCount
    lease_grace_s: types.DaySeconds
    idle_kv: types.Share
    kv_full: types.SomeShare
    queue_ratio: types.Number
    queue_s: types.Number
    preempted: types.Share


class Counters(_Section):
    retransmission_ratio: types.Number
    pause_warn: types.Share
    pause_fail: types.Share
    young_minutes: types.Count

    @property
    def young_s(self) -> int:
        return self.young_minutes * 60


class Pcie(_Section):
    corrected_storm: types.SomeCount


class Perf(_Section):
    bandwidth_share: types.SomeShare


class Link(_Section):
    flaps_per_day: types.SomeCount
    flap_debounce_s: types.Number
    downs_in_life: types.SomeCount
    unused: list[types.KernelName]


class Values(_Section):
    fabric: Fabric
    confirm: Confirm
    switch: Switch
    firmware: Firmware
    locale: Locale
    # Null leaves the key of the node alone: no role sets it, no check expects it.
    sysctl: dict[types.SysctlKey, types.SysctlValue]
    limits: Limits
    hugepages: HugePages
    modules: Modules
    neighbour: Neighbour
    time: Time
    services: dict[str, dict[str, UnitsOfFamily]]
    gpu: GpuPolicy
    engine: Engine
    serving: Serving
    counters: Counters
    link: Link
    pcie: Pcie
    perf: Perf


@dataclass(frozen=True, slots=True)
class Layer:
    """origin: where the values come from, as a person would name it."""

    origin: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Policy:
    """values: typed. origins: by the path of each single key, the layer that set it."""

    values: Values
    origins: Mapping[tuple[str, ...], str]


def read_layer(path: Path) -> Layer:
    """One policy file. Raises PolicyError."""
    try:
        data = yaml_text.load(read_given(path, _MAX_BYTES).decode("utf-8"))
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise PolicyError(f"{path}: {error}") from error
    if not isinstance(data, dict):
        raise PolicyError(f"{path}: a policy is a mapping of sections")
    return Layer(str(path), data)


def resolve(layers: Sequence[Layer]) -> Policy:
    """The layers merged, the later over the earlier. Raises PolicyError."""
    merged: dict[str, Any] = {}
    origins: dict[tuple[str, ...], str] = {}
    for layer in layers:
        merged = _merge(merged, layer.values, (), layer.origin, origins)
    try:
        return Policy(Values.model_validate(merged), origins)
    except ValidationError as error:
        first = error.errors()[0]
        # Of a mapping's key that is wrong itself, pydantic's path ends so.
        path = _existing(tuple(first["loc"]), merged, missing=first["type"] == "missing")
        origin = next((origins[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origins), layers[-1].origin)
        raise PolicyError(f"{origin}: `{'.'.join(path)}` {wrong_value(first)}") from error


def _existing(place: tuple[int | str, ...], values: Any, *, missing: bool) -> tuple[str, ...]:
    """As far as it leads to something that was given: pydantic adds which of a value's types it means."""
    path: list[str] = []
    for part in place:
        keys = {str(key): key for key in values} if isinstance(values, Mapping) else {}
        if str(part) in keys or (keys and missing):
            values = values.get(keys.get(str(part)))
        elif isinstance(values, Sequence) and not isinstance(values, str) and isinstance(part, int):
            values = values[part]
        else:
            break
        path.append(str(part))
    return tuple(path)


def _merge(
    below: Mapping[str, Any],
    above: Mapping[str, Any],
    path: tuple[str, ...],
    origin: str,
    origins: dict[tuple[str, ...], str],
) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        here = (*path, str(key))
        old = below.get(key)
        if isinstance(value, Mapping):
            merged[key] = _merge(old if isinstance(old, Mapping) else {}, value, here, origin, origins)
        else:
            merged[key] = value
            origins[here] = origin
    return merged
