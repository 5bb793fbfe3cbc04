"""A stream whose bytes are sealed: records of AES-256-GCM over the stream below.

    u32 length of what follows | ciphertext | tag of 16 bytes

Each direction has its own key and counts its records; the count is the nonce, and the length is authenticated with the
record. So a record that was altered, left out, repeated or moved does not open, which costs the connection. A large
view is encrypted from where it lies, and decrypted to where it belongs; memory stays at one record each way.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pdserve.transport.stream import PeerGone, Stream, after

RECORD_BYTES = 1 << 20
"""Plaintext in one record, at most."""
TAG_BYTES = 16
SMALL_BYTES = 64 << 10
"""Buffers below this are gathered into one record: heads and control frames do not each cost one."""

_LENGTH = struct.Struct("<I")
_COUNT = struct.Struct("<IQ")


class _Direction:
    """One key and the number of its next record. A connection would have to carry 2^64 of them to repeat one."""

    def __init__(self, key: bytes) -> None:
        self.cipher = AESGCM(key)
        self._count = 0

    def nonce(self) -> bytes:
        self._count += 1
        return _COUNT.pack(0, self._count)


class EncryptedStream(Stream):
    """below: it is used by nobody else any more."""

    def __init__(self, below: Stream, *, send_key: bytes, receive_key: bytes) -> None:
        self.peer = below.peer
        self.guard = None
        self._below = below
        self._tick_s = below._tick_s
        self._idled = time.monotonic()
        self._out = _Direction(send_key)
        self._in = _Direction(receive_key)
        self._sealed = memoryview(bytearray(_LENGTH.size + RECORD_BYTES + TAG_BYTES))
        self._pending: list[memoryview] = []
        """What is left to write of the last record."""
        self._covers = 0
        """How many bytes of what the caller still holds that record is made of."""
        self._received = memoryview(bytearray(RECORD_BYTES + TAG_BYTES))
        self._opened = memoryview(bytearray(RECORD_BYTES))
        self._left = self._opened[:0]
        """What is opened and not yet read."""

    # Reading.

    def wait_readable(self, deadline: float, what: str, idle: Callable[[], None]) -> None:
        if not self._left:
            self._below.wait_readable(deadline, what, idle)

    def scatter(
        self,
        views: Sequence[memoryview],
        deadline: float,
        what: str,
        idle: Callable[[], None],
        show: Callable[[memoryview], None],
    ) -> None:
        for whole in views:
            view = whole
            while view.nbytes:
                filled = self._fill(view, deadline, what, idle)
                show(view[:filled])
                view = view[filled:]
                self._keep_time(deadline, what, idle if view.nbytes else None)

    def _fill(self, view: memoryview, deadline: float, what: str, idle: Callable[[], None]) -> int:
        if not self._left:
            size = self._receive_record(deadline, what, idle)
            if size <= view.nbytes:
                self._open(size, view[:size])
                return size
            self._left = self._opened[:size]
            self._open(size, self._left)
        count = min(view.nbytes, self._left.nbytes)
        view[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def _receive_record(self, deadline: float, what: str, idle: Callable[[], None]) -> int:
        """Bytes of plaintext in it."""
        length = memoryview(bytearray(_LENGTH.size))
        self._below.read(length, deadline, what, idle)
        size = int(_LENGTH.unpack(length)[0]) - TAG_BYTES
        if not 0 < size <= RECORD_BYTES:
            raise PeerGone(f"a record of {size} bytes, there are at most {RECORD_BYTES}")
        self._below.read(self._received[: size + TAG_BYTES], deadline, what, idle)
        return size

    def _open(self, size: int, target: memoryview) -> None:
        data = self._received[: size + TAG_BYTES]
        try:
            self._in.cipher.decrypt_into(self._in.nonce(), data, _LENGTH.pack(data.nbytes), target)
        except InvalidTag:
            raise PeerGone("a record does not open: it was altered, left out, repeated or moved on its way") from None

    # Writing. What the caller still holds after a call, it gives again first in the next: so does Endpoint.

    def write_some(self, buffers: list[memoryview]) -> list[memoryview]:
        while buffers:
            self._pending = self._below.write_some(self._pending or self._seal(buffers))
            if self._pending:
                return buffers
            buffers = self._covered(buffers)
        return buffers

    def write(self, buffers: list[memoryview], deadline: float) -> None:
        while buffers:
            self._below.write(self._pending or self._seal(buffers), deadline)
            self._pending = []
            buffers = self._covered(buffers)

    def _covered(self, buffers: list[memoryview]) -> list[memoryview]:
        count, self._covers = self._covers, 0
        return after(buffers, count)

    def _seal(self, buffers: list[memoryview]) -> list[memoryview]:
        """The next record: of one large view alone, or of as many small ones as fit."""
        first = buffers[0].cast("B")
        plain: bytes | memoryview = first[:RECORD_BYTES]
        if first.nbytes < SMALL_BYTES:
            plain = b"".join(_leading(buffers))
        self._covers = len(plain)
        record = self._sealed[: _LENGTH.size + len(plain) + TAG_BYTES]
        length = _LENGTH.pack(len(plain) + TAG_BYTES)
        record[: _LENGTH.size] = length
        self._out.cipher.encrypt_into(self._out.nonce(), plain, length, record[_LENGTH.size :])
        return [record]

    # The end.

    def end_writing(self) -> None:
        self._below.end_writing()

    def shut(self) -> None:
        self._below.shut()

    def linger(self, seconds: float) -> None:
        self._below.linger(seconds)

    def close(self) -> None:
        self._below.close()


def _leading(buffers: Sequence[memoryview]) -> list[memoryview]:
    """The small views in front, together at most one record."""
    taken, size = [], 0
    for buffer in buffers:
        size += buffer.nbytes
        if buffer.nbytes >= SMALL_BYTES or size > RECORD_BYTES:
            break
        taken.append(buffer)
    return taken
