"""What is wrong with a value of a YAML file, in the words of whoever wrote the file and not of the library that read it."""

from collections.abc import Mapping
from typing import Any

_MUST_BE = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping of keys to values",
    "model": "a mapping of keys to values",
    "finite": "a finite number",
    "invalid": "a key that is text",
}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_LONGEST_SHOWN = 60


def wrong_value(error: Mapping[str, Any]) -> str:
    """error: one of pydantic's `ValidationError.errors()`. Without the key, which is the caller's to name."""
    kind, context = str(error["type"]), error.get("ctx") or {}
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "is no key that is known here"
    return f"must be {_must_be(kind, context, str(error['msg']))}, not {_shown(error.get('input'))}"


def _must_be(kind: str, context: Mapping[str, Any], message: str) -> str:
    if kind == "literal_error":
        return str(context["expected"]).replace("'", "`")
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return f"text like {context['pattern']}"
    for bound, words in _BOUNDS.items():
        if bound in context:
            return f"{words} {context[bound]:g}"
    return _MUST_BE.get(kind.split("_")[0], message.removeprefix("Input should be ").lower())


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "empty", True: "true", False: "false"}[value]
    text = str(value)
    return f"`{text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + '...'}`"
