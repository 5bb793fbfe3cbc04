"""JSON objects from a stranger: one meaning or an error. Everything raises LocalProtocolError, as validate.py says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from pdwire.errors import LocalProtocolError
from pdwire.validate import finite, integer, text


def dump(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def load(where: str, body: bytes) -> Fields:
    """Refuses what is not UTF-8, not JSON, not an object, nested beyond reason, or says a key twice."""
    try:
        # As text, because from bytes json.loads would also take UTF-16 and UTF-32.
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise LocalProtocolError(f"{where} is not json: {_brief(error)}") from None
    return Fields(where, value)


def _brief(error: Exception) -> str:
    return str(error)[:120] or type(error).__name__


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise LocalProtocolError(f"json key twice: {twice[:64]!r}")
    return result


def _no_constant(name: str) -> object:
    raise LocalProtocolError(f"json number {name} is not finite")


class Fields:
    """An object whose keys are taken out one by one; `end` refuses those that nobody asked for."""

    def __init__(self, where: str, value: object) -> None:
        if not isinstance(value, dict):
            raise LocalProtocolError(f"{where} must be an object")
        self._where = where
        self._left: dict[str, object] = dict(value)

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def take(self, key: str) -> object:
        try:
            return self._left.pop(key)
        except KeyError:
            raise LocalProtocolError(f"{self._where} has no {key!r}") from None

    def integer(self, key: str, low: int, high: int) -> int:
        return integer(f"{self._where} {key}", self.take(key), low, high)

    def number(self, key: str) -> float:
        return finite(f"{self._where} {key}", self.take(key))

    def text(self, key: str, longest: int) -> str:
        return text(f"{self._where} {key}", self.take(key), longest)

    def fields(self, key: str) -> Fields:
        return Fields(f"{self._where} {key}", self.take(key))

    def items(self, key: str, most: int) -> list[object]:
        value = self.take(key)
        if not isinstance(value, list) or len(value) > most:
            raise LocalProtocolError(f"{self._where} {key} must be a list of at most {most}")
        return value

    def rest(self) -> dict[str, object]:
        left, self._left = self._left, {}
        return left

    def end(self) -> None:
        if self._left:
            key = next(iter(self._left))
            raise LocalProtocolError(f"{self._where} has an unknown key {key[:64]!r}")
