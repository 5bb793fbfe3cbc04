"""A policy as rows, one a single key: what it is, and where it comes from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdchecks.policy import Policy
from pdctl.content import content_root
from pdctl.policy_source import SHIPPED


@dataclass(frozen=True, slots=True)
class Row:
    """node: empty where all nodes have this value. origin: default, site PATH, group NAME or host NAME."""

    key: str
    value: Any
    origin: str
    node: str = ""


def rows(policies: Mapping[str, Policy]) -> list[Row]:
    """Every key of the policies, by node name; once where all agree on value and origin."""
    by_node = {node: dict(_flat(policy)) for node, policy in policies.items()}
    found: list[Row] = []
    for key in dict.fromkeys(key for flat in by_node.values() for key in flat):
        seen = {node: flat[key] for node, flat in by_node.items() if key in flat}
        first = next(iter(seen.values()))
        if len(seen) == len(by_node) and all(other == first for other in seen.values()):
            found.append(Row(key, *first))
        else:
            found += [Row(key, value, origin, node) for node, (value, origin) in seen.items()]
    return found


def _flat(policy: Policy) -> Iterator[tuple[str, tuple[Any, str]]]:
    values = policy.values.model_dump(mode="json")
    for path, origin in policy.origins.items():
        found: Any = values
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        yield _name(path), (found, _origin(origin))


def _name(path: tuple[str, ...]) -> str:
    """A key with dots of its own stands in brackets, so that the name can be read back."""
    return "".join(f"[{part}]" if "." in part else f".{part}" for part in path).removeprefix(".")


def _origin(layer: str) -> str:
    if layer == str(content_root() / SHIPPED):
        return "default"
    return f"site {layer}" if Path(layer).is_file() else layer
