"""YAML from people: whatever is wrong with it is one kind of error."""

from typing import Any

import yaml


def load(text: str) -> Any:
    """The document. Raises yaml.YAMLError, also for a date that no calendar has and for nesting without an end."""
    try:
        return yaml.safe_load(text)
    except ValueError as error:
        raise yaml.YAMLError(f"a value is no value: {error}") from error
    except RecursionError as error:
        raise yaml.YAMLError("its brackets are nested too deeply") from error
