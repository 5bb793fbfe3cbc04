"""Damaged frames and HELLOs without end: sound conversations with bits, fields, bytes, frames and JSON values changed.

Seeded: the same numbers give the same inputs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from tests.fuzz.target import PROVING, RESEALED, seeds

from pdwire import HEAD_BYTES
from pdwire.header import HEADER

_FIELDS = ((0, 4), (4, 1), (5, 1), (6, 1), (7, 1), (8, 8), (16, 2), (18, 2), (20, 2), (22, 2), (24, 8))
_PLACES = ((32, 16), (48, 2), (50, 2), (52, 4), (56, 4), (60, 4))
_NUMBERS = (0, 1, 2, 63, 64, 65, 255, 256, 65_535, 65_536, 65_537, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 64) - 1)
_VALUES: tuple[object, ...] = (
    None, True, 0, -1, 1 << 64, 10**400, 1e308, "", "a\nb", "\ud800", "x" * 5000, [], [[]], [1] * 3000, {}, {"a": {}},
)  # fmt: skip


def mutants(seed: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    while True:
        base = chance.choice(seeds())
        data = bytearray(base)
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
            chance.choice(_CHANGES)(chance, data)
        if chance.random() < 0.75 and not data[0] & PROVING:
            data[0] |= RESEALED
        if chance.random() < 0.3:
            data[1] = chance.randrange(256)
        yield bytes(data)


def _frames(data: bytearray) -> list[tuple[int, int]]:
    """(offset, length) as the heads say, as far as they can be believed."""
    found, at = [], 2
    while at + HEAD_BYTES <= len(data):
        length = HEADER.unpack_from(data, at)[5]
        if not HEAD_BYTES <= length <= len(data) - at:
            break
        found.append((at, length))
        at += length
    return found or [(2, max(0, len(data) - 2))]


def _bit(chance: random.Random, data: bytearray) -> None:
    if len(data) > 2:
        at = chance.randrange(2, len(data))
        data[at] ^= 1 << chance.randrange(8)


def _field(chance: random.Random, data: bytearray) -> None:
    at, _ = chance.choice(_frames(data))
    offset, size = chance.choice(_FIELDS + _PLACES)
    number = chance.choice(_NUMBERS) if chance.random() < 0.7 else chance.getrandbits(8 * size)
    if at + offset + size <= len(data):
        data[at + offset : at + offset + size] = (number % (1 << 8 * size)).to_bytes(size, "little")


def _bytes(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(2, max(3, len(data)))
    count = chance.choice((0, 1, 4, 16, 100))
    data[at : at + chance.choice((0, count))] = chance.randbytes(count)


def _cut(chance: random.Random, data: bytearray) -> None:
    del data[chance.randrange(2, max(3, len(data))) :]


def _swap(chance: random.Random, data: bytearray) -> None:
    """A frame goes, comes twice, or comes elsewhere."""
    frames = _frames(data)
    at, length = chance.choice(frames)
    frame = bytes(data[at : at + length])
    if chance.random() < 0.6:
        del data[at : at + length]
    if chance.random() < 0.7:
        to, _ = chance.choice(_frames(data))
        data[to:to] = frame


def _json(chance: random.Random, data: bytearray) -> None:
    """A value of a JSON body becomes another, a key goes or comes; the length is made right."""
    at, length = chance.choice(_frames(data))
    try:
        body = json.loads(bytes(data[at + HEAD_BYTES : at + length]))
    except (ValueError, UnicodeDecodeError):
        return
    if not isinstance(body, dict):
        return
    inside = [body, *(value for value in body.values() if isinstance(value, dict))]
    target = chance.choice(inside)
    key = chance.choice([*target, "extra"]) if target else "extra"
    if chance.random() < 0.2:
        target.pop(key, None)
    else:
        target[key] = chance.choice((*_VALUES, chance.choice(_NUMBERS)))
    try:
        text = json.dumps(body).encode()
    except (ValueError, UnicodeEncodeError):
        return
    if chance.random() < 0.1:
        text = text.replace(b"{", b"{" * chance.choice((1, 2, 500)), 1)
    data[at + HEAD_BYTES : at + length] = text
    data[at + 8 : at + 16] = (HEAD_BYTES + len(text)).to_bytes(8, "little")


def _flags(chance: random.Random, data: bytearray) -> None:
    data[0] = chance.randrange(32)


_CHANGES: tuple[Callable[[random.Random, bytearray], None], ...] = (
    _bit, _bit, _field, _field, _field, _bytes, _cut, _swap, _json, _json, _json, _flags,
)  # fmt: skip
