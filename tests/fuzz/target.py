"""What a stranger may say, fed to one end of a connection: it ends in frames or in an error of pdwire, in little time and
memory. Every fuzzer and the checked-in corpus come through here."""

from __future__ import annotations

import io
import time
from functools import cache

from tests.unit.wire.peers import TINY_DECODE, TINY_PREFILL, Clock, one_of_each

from pdwire import (
    HEAD_BYTES,
    MAX_CONTROL_BYTES,
    Connection,
    ConnectionState,
    Credentials,
    Hello,
    IncompatiblePeer,
    LayerFrame,
    Limits,
    LocalProtocolError,
    RemoteProtocolError,
    Role,
    Secret,
    Security,
    seal,
)
from pdwire.header import HEADER, Checksum
from pdwire.inspect import Inspection

PREFILL_HEARS, OPEN, PROVING, RESEALED, INSPECTED = 1, 2, 4, 8, 16
"""Bits of an input's first byte: which end hears; whether both HELLOs are said; whether there is a secret; whether the
checksums of the frames are made right, so that what is behind them is reached; whether it is a file to inspect."""
MOST_CPU_S = 2.0
"""For one input of 64 KiB at most; it takes milliseconds."""
SECRET = Secret(bytes(range(32)))
_RECORDS = {Role.PREFILL: TINY_PREFILL, Role.DECODE: TINY_DECODE}
_HELLOS = {role: seal(Hello(role=role, record=record, offer=Limits().offer)) for role, record in _RECORDS.items()}


def feed(data: bytes) -> int:
    """data: flags, the size of the pieces it comes in (0: whole), bytes. Returns how many frames were understood."""
    began = time.process_time()
    flags, step = (*data[:2], 0, 0)[:2]
    said = _resealed(data[2:]) if flags & RESEALED else data[2:]
    if flags & INSPECTED:
        return _inspect(said)
    hearer = _hearer(flags)
    events = 0
    try:
        for at in range(0, len(said), step or len(said) or 1):
            hearer.feed(said[at : at + (step or len(said))])
            while (event := hearer.next_event()) is not None:
                events += 1
                _check(event.frame, event.body)
                if hearer.opening is not None:
                    hearer.send(seal(hearer.opening))
            for owed in hearer.owed():
                hearer.send(seal(owed))
        hearer.overdue()
    except (RemoteProtocolError, IncompatiblePeer) as error:
        assert len(str(error)) < 20_000
        hearer.lost()
    except LocalProtocolError as error:
        raise AssertionError("a peer made us break the protocol") from error
    assert time.process_time() - began < MOST_CPU_S, "an input that takes this long is a way to stop us"
    return events


def _inspect(said: bytes) -> int:
    read = io.BytesIO(said).read
    return sum(not one.faults for one in Inspection(read).frames())


def _check(frame: object, body: bytes) -> None:
    if isinstance(frame, LayerFrame):
        assert len(body) == frame.body_bytes
    assert str(frame)


def _hearer(flags: int) -> Connection:
    role = Role.PREFILL if flags & PREFILL_HEARS else Role.DECODE
    credentials = Credentials(Security.AUTHENTICATED, lambda: [SECRET], b"n" * 32) if flags & PROVING else None
    hearer = Connection(role, _RECORDS[role], credentials=credentials, clock=Clock())
    if flags & OPEN and not flags & PROVING:
        if role is Role.PREFILL:
            hearer.send(_HELLOS[role])
        for buffer in _HELLOS[role.peer].buffers:
            hearer.feed(buffer)
        hearer.next_event()
        if role is Role.DECODE:
            hearer.send(_HELLOS[role])
        assert hearer.state is ConnectionState.OPEN
    elif flags & PROVING and role is Role.DECODE and hearer.opening is not None:
        hearer.send(seal(hearer.opening))
    elif not flags & PROVING and role is Role.PREFILL:
        hearer.send(_HELLOS[role])
    return hearer


def _resealed(said: bytes) -> bytes:
    data, at = bytearray(said), 0
    while at + HEAD_BYTES <= len(data):
        length = HEADER.unpack_from(data, at)[5]
        if not HEAD_BYTES <= length <= min(len(data) - at, MAX_CONTROL_BYTES):
            break
        checksum = Checksum(data[at : at + HEAD_BYTES])
        checksum.update(data[at + HEAD_BYTES : at + length])
        data[at + 24 : at + 32] = checksum.value.to_bytes(8, "little")
        at += length
    return bytes(data)


@cache
def seeds() -> tuple[bytes, ...]:
    """Sound conversations, whole and in parts, as each end hears them."""
    found = []
    for role, bit in ((Role.PREFILL, 0), (Role.DECODE, PREFILL_HEARS)):
        said = [
            b"".join(bytes(buffer) for buffer in seal(frame, [body] if body else ()).buffers)
            for speaker, frame, body in one_of_each()
            if speaker is role
        ]
        found.append(bytes([bit, 0]) + b"".join(said))
        found.append(bytes([bit | OPEN, 7]) + b"".join(said[1:]))
        found += [bytes([bit | OPEN, 0]) + one for one in said[1:]]
        found += [bytes([bit, 0]) + said[0]]
    found += [bytes([bit & PREFILL_HEARS | INSPECTED]) + one[1:] for one in found[:1] for bit in one[:1]]
    found += _proofs()
    return tuple(found)


def _proofs() -> list[bytes]:
    """What each end hears of a handshake in which the nonces are the target's own, so that the proofs hold."""
    prefill, decode = (
        Connection(role, record, credentials=Credentials(Security.AUTHENTICATED, lambda: [SECRET], b"n" * 32))
        for role, record in ((Role.PREFILL, TINY_PREFILL), (Role.DECODE, TINY_DECODE))
    )
    heard = {prefill: b"", decode: b""}
    while speaker := next((end for end in (prefill, decode) if end.opening is not None), None):
        hearer = decode if speaker is prefill else prefill
        raw = b"".join(speaker.send(seal(speaker.opening))) if speaker.opening else b""
        heard[hearer] += raw
        hearer.feed(raw)
        hearer.next_event()
    return [bytes([PROVING, 0]) + heard[decode], bytes([PROVING | PREFILL_HEARS, 0]) + heard[prefill]]
