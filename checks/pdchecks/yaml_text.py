"""YAML from people: whatever is wrong with it is one kind of error."""

from typing import Any

import yaml

_MOST_VALUES = 1_000_000


def load(text: str) -> Any:
    """The document.

    Raises yaml.YAMLError, also for a date that no calendar has, nesting without an end, and aliases that lead back to themselves
    or stand for more values than anybody writes.
    """
    loader = yaml.SafeLoader(text)
    try:
        if (node := loader.get_single_node()) is None:
            return None
        _values(node, {})
        return loader.construct_document(node)
    except ValueError as error:
        raise yaml.YAMLError(f"a value is no value: {error}") from error
    except RecursionError as error:
        raise yaml.YAMLError("its brackets are nested too deeply") from error
    finally:
        loader.dispose()


def _values(node: yaml.Node, known: dict[int, int | None]) -> int:
    """How many values it stands for, each alias as often as it is used. known: node -> that; None while it is counted."""
    if (found := known.get(id(node), 0)) is None:
        raise yaml.YAMLError("an alias in it (`*name`) leads back to itself")
    if found:
        return found
    known[id(node)] = None
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        parts = node.value
    count = 1 + sum(_values(part, known) for part in parts)
    if count > _MOST_VALUES:
        raise yaml.YAMLError(f"it stands for more than {_MOST_VALUES} values")
    known[id(node)] = count
    return count
