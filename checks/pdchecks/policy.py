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

from pdchecks import yaml_text
from pdchecks.wrong_value import wrong_value

_MAX_BYTES = 1 << 20


class PolicyError(ValueError):
    """A policy file is unreadable, or a value in it has the wrong type. The message names the origin and the key."""


class _Section(BaseModel):
    # Roles read keys of their own from the same file.
    model_config = ConfigDict(extra="allow", frozen=True)


class Mtu(_Section):
    roce: int
    netdev: int


class Cnp(_Section):
    dscp: int
    priority: int


class Gids(_Section):
    subnets: list[str]


class Ecn(_Section):
    notification_point: bool
    reaction_point: bool


class Fabric(_Section):
    mtu: Mtu
    trust: str
    lossless_priority: int
    dscp: int
    cnp: Cnp
    dcbx: str
    global_pause: bool
    ecn: Ecn
    cable_length_m: int
    gid: Gids


class SwitchEcn(_Section):
    min_bytes: int | None
    max_bytes: int | None
    probability_percent: int | None


class PfcWatchdog(_Section):
    detection_ms: int | None
    restoration_ms: int | None
    action: Literal["drop", "forward"]


class Switch(_Section):
    mtu: int | None
    ecn: SwitchEcn
    roce_bandwidth_percent: int | None
    pfc_watchdog: PfcWatchdog


class Family(_Section):
    prefix: int
    parts: list[int]
    minimum: str | None
    recommended: str | None
    source: str | None = None


class Firmware(_Section):
    vendor_psids: list[str]
    families: dict[str, Family]


class Locale(_Section):
    candidates: list[str]
    charmap: str


class Limits(_Section):
    memlock: int | str
    nofile: int | str


class Modules(_Section):
    load: list[str]


class Neighbour(_Section):
    reachable_floor_ms: int


class UnitsOfFamily(_Section):
    units: list[str]


class Context(_Section):
    ghost_min_mib: int
    ghost_max_mib: int


class GpuPolicy(_Section):
    context: Context


class Counters(_Section):
    retransmission_ratio: float
    pause_warn: float
    pause_fail: float
    young_minutes: int

    @property
    def young_s(self) -> int:
        return self.young_minutes * 60


class Pcie(_Section):
    corrected_storm: int


class Perf(_Section):
    bandwidth_share: float


class Link(_Section):
    flaps_per_day: int
    flap_debounce_s: float
    downs_in_life: int
    unused: list[str]


class Values(_Section):
    fabric: Fabric
    switch: Switch
    firmware: Firmware
    locale: Locale
    # Null leaves the key of the node alone: no role sets it, no check expects it.
    sysctl: dict[str, int | str | None]
    limits: Limits
    modules: Modules
    neighbour: Neighbour
    services: dict[str, dict[str, UnitsOfFamily]]
    gpu: GpuPolicy
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
        if path.stat().st_size > _MAX_BYTES:
            raise PolicyError(f"{path}: larger than {_MAX_BYTES} bytes")
        data = yaml_text.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
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
        path = tuple(str(part) for part in first["loc"])
        origin = next((origins[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origins), layers[-1].origin)
        raise PolicyError(f"{origin}: `{'.'.join(path)}` {wrong_value(first)}") from error


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
