"""From a frame to the buffers that go out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdwire import bodies
from pdwire.errors import LocalProtocolError
from pdwire.frames import KIND_OF, Abort, Complete, FirstToken, Frame, LayerFrame, Locate, Places
from pdwire.header import HEAD_BYTES, Buffer, write_control_head, write_layer_head
from pdwire.limits import MAX_CONTROL_BYTES
from pdwire.validate import CONNECTION


@dataclass(frozen=True, slots=True)
class Sealed:
    """A frame as it goes out. buffers: the head, then the body's own buffers, uncopied. length: of them all.

    Of one left open the head is missing: whoever moves the body makes it, with LayerHead, from what passes by.
    """

    frame: Frame
    buffers: tuple[Buffer, ...]
    length: int


def seal(frame: Frame, body: Sequence[Buffer] = ()) -> Sealed:
    """body: of a LayerFrame, contiguous, together exactly its body_bytes. Raises LocalProtocolError."""
    if isinstance(frame, LayerFrame):
        pieces = _pieces(frame, body)
        return Sealed(frame, (write_layer_head(frame, pieces), *pieces), HEAD_BYTES + frame.body_bytes)
    encoded = bodies.encode(frame)
    length = HEAD_BYTES + len(encoded)
    kind = KIND_OF[type(frame)]
    if length > MAX_CONTROL_BYTES:
        raise LocalProtocolError(f"{kind.name.lower()} must have at most {MAX_CONTROL_BYTES} bytes: {length}")
    return Sealed(frame, (write_control_head(kind, request_of(frame), encoded) + encoded,), length)


def leave_open(frame: LayerFrame, body: Sequence[Buffer]) -> Sealed:
    """As `seal`, but without reading the body: the head is left to be made."""
    return Sealed(frame, _pieces(frame, body), HEAD_BYTES + frame.body_bytes)


def _pieces(frame: LayerFrame, body: Sequence[Buffer]) -> tuple[memoryview, ...]:
    pieces = tuple(memoryview(piece).cast("B") for piece in body)
    size = sum(piece.nbytes for piece in pieces)
    if size != frame.body_bytes:
        raise LocalProtocolError(f"body of {frame} must have {frame.body_bytes} bytes: {size}")
    return pieces


def request_of(frame: Frame) -> bytes:
    """The request it speaks for, or CONNECTION."""
    match frame:
        case LayerFrame() | FirstToken() | Complete() | Abort() | Locate() | Places():
            return frame.request
        case _:
            return CONNECTION
