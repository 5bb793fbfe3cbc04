"""An engine's command line as its user typed or pasted it: environment, model and options."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Options: TypeAlias = Mapping[str, str]
"""By long name with dashes and without the leading ones; a flag without a value has the value `true`."""


class DescriptionError(ValueError):
    """The description of a pair cannot be read; the message says what and where."""


@dataclass(frozen=True, slots=True)
class Command:
    env: Mapping[str, str]
    model: str | None
    options: Options


# vLLM's short options (vllm/engine/arg_utils.py).
_SHORT = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-dcp": "decode-context-parallel-size",
    "-ac": "attention-config",
    "-q": "quantization",
    "-O": "optimization-level",
    "-sc": "speculative-config",
}
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})
"""A chat or a web page turns the quotes of a pasted command into these."""


def parse_command(text: str) -> Command:
    """text: `VLLM_X=1 vllm serve MODEL --flag value ...`, or the flags alone. Raises DescriptionError."""
    joined = re.sub(r"\\\s*\n", " ", text.translate(_QUOTES))
    try:
        words = list(_until_shell(shlex.split(joined)))
    except ValueError as error:
        raise DescriptionError(f"command line: {error}: {joined[:80]!r}") from None
    env: dict[str, str] = {}
    while words and (match := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", words[0], re.DOTALL)):
        env[match[1]] = match[2]
        words.pop(0)
    options: dict[str, str] = {}
    plain: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not _is_option(word):
            plain.append(word)
            continue
        name, sign, value = word.partition("=")
        if not sign:
            takes = position < len(words) and not _is_option(words[position])
            value = words[position] if takes else "true"
            position += takes
        options[_long(name)] = value
    return Command(env, options.get("model") or _served(plain), options)


def _until_shell(words: list[str]) -> Iterator[str]:
    """What comes before a redirection, a pipe or the background."""
    for word in words:
        if word in ("&", "|", "&&", ";") or re.match(r"\d?>", word):
            return
        yield word


def _is_option(word: str) -> bool:
    return re.match(r"--?[A-Za-z]", word) is not None


def _long(name: str) -> str:
    stem, dot, rest = name.partition(".")
    return _SHORT.get(stem, stem.lstrip("-").replace("_", "-")) + dot + rest


def _served(plain: list[str]) -> str | None:
    """The model of `vllm serve MODEL`; a bare flag before it may have swallowed nothing, so the next word counts."""
    if "serve" in plain[:-1]:
        return plain[plain.index("serve") + 1]
    return None


def option_json(options: Options, name: str) -> Mapping[str, Any]:
    """An option whose value is a JSON object, with `--name.key value` merged in. Raises DescriptionError."""
    value: Any = {}
    if name in options:
        try:
            value = json.loads(options[name])
        except ValueError as error:
            raise DescriptionError(f"--{name} is not JSON: {error}: {options[name][:80]!r}") from None
        if not isinstance(value, dict):
            raise DescriptionError(f"--{name} must be a JSON object: {options[name][:80]!r}")
    for key, text in options.items():
        if key.startswith(f"{name}."):
            node = value
            *parents, leaf = key.removeprefix(f"{name}.").split(".")
            for parent in parents:
                node = node.setdefault(parent, {})
                if not isinstance(node, dict):
                    raise DescriptionError(f"--{key}: `{parent}` is not an object")
            node[leaf] = _scalar(text)
    return dict(value)


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def option_integer(options: Options, name: str, default: int) -> int:
    """Raises DescriptionError unless it is a positive integer. default: the engine's own, for an absent option."""
    text = options.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[1-9]\d{0,8}", text):
        raise DescriptionError(f"--{name} must be a positive integer: {text!r}")
    return int(text)
