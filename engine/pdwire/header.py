"""The 64 bytes at the front of every frame: a header of 32 and a descriptor of 32. Little-endian.

Reading one checks everything that the 64 bytes alone can tell, before any memory is taken for what follows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import xxhash

from pdwire.dtypes import DType
from pdwire.errors import LocalProtocolError, RemoteProtocolError
from pdwire.frames import CONNECTION_KINDS, Kind, LayerFrame, Part
from pdwire.limits import MAX_CONTROL_BYTES
from pdwire.record import PROTOCOL_VERSION
from pdwire.validate import CONNECTION, member, request_id

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC = 0xDEADBEAF
HEADER = struct.Struct("<IBBBBQ4HQ")
DESCRIPTOR = struct.Struct("<16sHHIII")
HEAD_BYTES = HEADER.size + DESCRIPTOR.size
FLAG_BIG_ENDIAN = 0x01
"""The body is big-endian. Version 1 has no such frames: the flag is refused, and any other flag too."""

_CHECKSUM_AT = HEADER.size - 8
_CHECKSUM = struct.Struct("<Q")
_SWAPPED_MAGIC = int.from_bytes(MAGIC.to_bytes(4, "little"), "big")


@dataclass(frozen=True, slots=True)
class Head:
    """What the 64 bytes say. request: all zero for the connection. layer: the frame, if it is one of KV."""

    kind: Kind
    length: int
    request: bytes
    checksum: int
    layer: LayerFrame | None = None

    @property
    def body_bytes(self) -> int:
        return self.length - HEAD_BYTES


class Checksum:
    """xxh3-64 over header bytes 0 to 23, the descriptor and the body, in that order, piece by piece."""

    __slots__ = ("_state",)

    def __init__(self, head: Buffer) -> None:
        view = memoryview(head)
        self._state = xxhash.xxh3_64(view[:_CHECKSUM_AT])
        self._state.update(view[HEADER.size : HEAD_BYTES])

    def update(self, piece: Buffer) -> None:
        self._state.update(piece)

    @property
    def value(self) -> int:
        return self._state.intdigest()


class LayerHead:
    """The head of a LAYER, made while its body is read once, piece by piece and in order, for the checksum."""

    __slots__ = ("_checksum", "_head")

    def __init__(self, frame: LayerFrame) -> None:
        head = self._head = bytearray(HEAD_BYTES)
        length = HEAD_BYTES + frame.body_bytes
        shape = (1, frame.kv_heads, frame.count, frame.head_dim)
        HEADER.pack_into(head, 0, MAGIC, PROTOCOL_VERSION, 0, frame.dtype, Kind.LAYER, length, *shape, 0)
        place = (frame.request, frame.layer, frame.part, frame.first_token, frame.count, 0)
        DESCRIPTOR.pack_into(head, HEADER.size, *place)
        self._checksum = Checksum(head)

    def update(self, piece: Buffer) -> None:
        self._checksum.update(piece)

    def finish(self) -> bytes:
        """All of the body has been shown."""
        _CHECKSUM.pack_into(self._head, _CHECKSUM_AT, self._checksum.value)
        return bytes(self._head)


def write_layer_head(frame: LayerFrame, body: Sequence[Buffer]) -> bytes:
    """body: the bytes that will follow."""
    head = LayerHead(frame)
    for piece in body:
        head.update(piece)
    return head.finish()


def write_control_head(kind: Kind, request: bytes, body: bytes) -> bytes:
    head = bytearray(HEAD_BYTES)
    HEADER.pack_into(head, 0, MAGIC, PROTOCOL_VERSION, 0, 0, kind, HEAD_BYTES + len(body), 0, 0, 0, 0, 0)
    DESCRIPTOR.pack_into(head, HEADER.size, request, 0, 0, 0, 0, 0)
    return _sealed(head, (body,))


def _sealed(head: bytearray, body: Sequence[Buffer]) -> bytes:
    checksum = Checksum(head)
    for piece in body:
        checksum.update(piece)
    _CHECKSUM.pack_into(head, _CHECKSUM_AT, checksum.value)
    return bytes(head)


def read_head(head: Buffer) -> Head:
    """head: exactly 64 bytes. Raises RemoteProtocolError; each malformed case has its own message."""
    try:
        return _read_head(head)
    except LocalProtocolError as error:
        raise RemoteProtocolError(str(error)) from None


def _read_head(head: Buffer) -> Head:
    magic, version, flags, dtype, code, length, layers, heads, tokens, dim, checksum = HEADER.unpack_from(head, 0)
    request, layer, part, first_token, count, reserved = DESCRIPTOR.unpack_from(head, HEADER.size)
    if magic == _SWAPPED_MAGIC:
        raise RemoteProtocolError("header is big-endian, the wire is little-endian")
    if magic != MAGIC:
        raise RemoteProtocolError(f"illegal magic: {bytes(head[:4])!r}")
    if version != PROTOCOL_VERSION:
        raise RemoteProtocolError(f"protocol version {version!r}, this side speaks {PROTOCOL_VERSION}")
    if flags & FLAG_BIG_ENDIAN:
        raise RemoteProtocolError("body is big-endian, the wire is little-endian")
    if flags:
        raise RemoteProtocolError(f"unknown flags: {flags:#04x}")
    if reserved:
        raise RemoteProtocolError(f"reserved descriptor field is not zero: {reserved:#x}")
    kind = member("frame kind", Kind, code)
    if length < HEAD_BYTES:
        raise RemoteProtocolError(f"length {length!r} is shorter than the {HEAD_BYTES} bytes of a head")
    if kind is Kind.LAYER:
        frame = _layer(request, dtype, length, (layers, heads, tokens, dim), (layer, part, first_token, count))
        return Head(kind, length, request, checksum, frame)
    _control(kind, length, request, (dtype, layers, heads, tokens, dim, layer, part, first_token, count))
    return Head(kind, length, request, checksum)


def _layer(
    request: bytes, dtype: int, length: int, shape: tuple[int, int, int, int], place: tuple[int, int, int, int]
) -> LayerFrame:
    layers, heads, tokens, dim = shape
    layer, part, first_token, count = place
    if layers != 1:
        raise RemoteProtocolError(f"a layer frame has 1 layer in its shape: {layers!r}")
    if tokens != count:
        raise RemoteProtocolError(f"shape has {tokens!r} tokens, descriptor {count!r}")
    frame = LayerFrame(
        request=request,
        layer=layer,
        first_token=first_token,
        count=count,
        dtype=member("dtype code", DType, dtype),
        kv_heads=heads,
        head_dim=dim,
        part=member("part", Part, part),
    )
    if length != HEAD_BYTES + frame.body_bytes:
        want = HEAD_BYTES + frame.body_bytes
        raise RemoteProtocolError(f"length {length!r} of {frame}, its shape and dtype imply {want}")
    return frame


def _control(kind: Kind, length: int, request: bytes, unused: tuple[int, ...]) -> None:
    name = kind.name.lower()
    if length > MAX_CONTROL_BYTES:
        raise RemoteProtocolError(f"length {length!r} of {name}, control frames have at most {MAX_CONTROL_BYTES}")
    if any(unused):
        raise RemoteProtocolError(f"{name} with a dtype, shape or token range: {unused!r}")
    if kind in CONNECTION_KINDS and request != CONNECTION:
        raise RemoteProtocolError(f"{name} for one request: {request!r}")
    if kind not in CONNECTION_KINDS and kind is not Kind.ABORT:
        request_id(request)
