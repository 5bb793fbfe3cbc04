"""The handshake: who holds the secret gets in, and nobody else, whatever he repeats, changes or exchanges."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.wire.peers import TINY_DECODE, TINY_PREFILL

from pdwire import (
    MAX_HANDSHAKE_BYTES,
    Abort,
    AbortCode,
    Challenge,
    CompatRecord,
    Connection,
    ConnectionState,
    Credentials,
    Hello,
    Kind,
    Proof,
    RemoteProtocolError,
    Role,
    Secret,
    Security,
    Unauthenticated,
    seal,
)
from pdwire.header import write_control_head

SECRET, OTHER = Secret(bytes(range(32))), Secret(bytes(32))


def end(
    role: Role,
    *secrets: Secret,
    security: Security = Security.AUTHENTICATED,
    nonce: bytes | None = None,
    record: CompatRecord | None = None,
) -> Connection:
    credentials = Credentials(security, lambda: secrets, nonce or os.urandom(32)) if secrets else None
    return Connection(role, record or (TINY_PREFILL if role is Role.PREFILL else TINY_DECODE), credentials=credentials)


def words_of(speaker: Connection) -> bytes:
    frame = speaker.opening
    assert frame is not None
    return b"".join(speaker.send(seal(frame)))


def shake(prefill: Connection, decode: Connection, change: Callable[[int, bytes], bytes] = lambda at, raw: raw) -> int:
    """Carries what is said until nobody has to say anything; returns how many frames that took."""
    said = 0
    while True:
        speaker = next((end for end in (prefill, decode) if end.opening is not None), None)
        if speaker is None:
            return said
        hearer = decode if speaker is prefill else prefill
        hearer.feed(change(said, words_of(speaker)))
        hearer.next_event()
        said += 1


def test_two_who_hold_the_secret_get_through_and_share_a_transcript() -> None:
    prefill, decode = end(Role.PREFILL, SECRET), end(Role.DECODE, SECRET)
    assert shake(prefill, decode) == 5
    assert prefill.state is decode.state is ConnectionState.OPEN
    assert prefill.handshake and decode.handshake
    assert prefill.handshake.transcript == decode.handshake.transcript
    assert prefill.handshake.secret == decode.handshake.secret == SECRET
    assert prefill.handshake.peer_nonce != decode.handshake.peer_nonce


def test_no_two_handshakes_have_one_transcript() -> None:
    transcripts = set()
    for _ in range(5):
        prefill, decode = end(Role.PREFILL, SECRET), end(Role.DECODE, SECRET)
        shake(prefill, decode)
        assert prefill.handshake is not None
        transcripts.add(prefill.handshake.transcript)
    assert len(transcripts) == 5


@pytest.mark.parametrize(
    ("prefill", "decode", "words"),
    [
        (end(Role.PREFILL, OTHER), end(Role.DECODE, SECRET), "no secret in common"),
        (end(Role.PREFILL), end(Role.DECODE, SECRET), "asks for the deployment's secret, and prefill was given none"),
        (
            end(Role.PREFILL, SECRET, security=Security.ENCRYPTED),
            end(Role.DECODE, SECRET),
            "prefill is set to `security: encrypted`, decode to `security: authenticated`",
        ),
    ],
    ids=["another", "none", "other-security"],
)
def test_who_does_not_fit_is_refused_by_name(prefill: Connection, decode: Connection, words: str) -> None:
    prefill.feed(words_of(decode))
    with pytest.raises(Unauthenticated, match=words):
        prefill.next_event()
    assert prefill.state is ConnectionState.BROKEN


def test_prefill_without_a_proof_is_refused_before_its_hello_is_read() -> None:
    decode = end(Role.DECODE, SECRET)
    words_of(decode)
    with pytest.raises(Unauthenticated, match="prefill said hello without a proof"):
        decode.begin(seal(Hello(role=Role.PREFILL, record=TINY_PREFILL, offer=decode.limits.offer)).buffers[0][:64])


def test_decode_without_a_secret_is_never_told_anything() -> None:
    prefill, decode = end(Role.PREFILL, SECRET), end(Role.DECODE)
    assert prefill.opening is None and decode.opening is None
    with pytest.raises(Unauthenticated, match="decode said hello without a proof"):
        prefill.begin(seal(decode.hello).buffers[0][:64])


@pytest.mark.parametrize("frame", [0, 1, 2])
def test_every_flipped_bit_of_the_handshake_is_noticed(frame: int) -> None:
    """The checksum finds it in a whole frame. Behind a checksum that was made again, the HMACs find it."""
    prefill, decode = end(Role.PREFILL, SECRET), end(Role.DECODE, SECRET)
    sizes: list[int] = []
    shake(prefill, decode, lambda at, raw: sizes.append(len(raw)) or raw)  # type: ignore[func-returns-value]
    for bit in range(8 * 64, 8 * sizes[frame]):

        def flip(at: int, raw: bytes, bit: int = bit) -> bytes:
            if at != frame:
                return raw
            body = bytearray(raw[64:])
            body[bit // 8 - 64] ^= 1 << bit % 8
            kind = Kind.CHALLENGE if frame == 0 else Kind.PROOF
            return write_control_head(kind, bytes(16), bytes(body)) + body

        with pytest.raises(RemoteProtocolError):
            shake(end(Role.PREFILL, SECRET), end(Role.DECODE, SECRET), flip)


def test_a_recorded_prefill_cannot_be_played_again() -> None:
    recorded: list[bytes] = []
    prefill, decode = end(Role.PREFILL, SECRET), end(Role.DECODE, SECRET)
    shake(prefill, decode, lambda at, raw: recorded.append(raw) or raw)  # type: ignore[func-returns-value]
    again = end(Role.DECODE, SECRET)
    words_of(again)
    again.feed(recorded[1])
    with pytest.raises(Unauthenticated, match="prefill does not hold the deployment's secret"):
        again.next_event()


def test_a_recorded_decode_cannot_be_played_again() -> None:
    recorded: list[bytes] = []
    prefill, decode = end(Role.PREFILL, SECRET), end(Role.DECODE, SECRET)
    shake(prefill, decode, lambda at, raw: recorded.append(raw) or raw)  # type: ignore[func-returns-value]
    again = end(Role.PREFILL, SECRET)
    again.feed(recorded[0])
    again.next_event()
    words_of(again)
    again.feed(recorded[2])
    with pytest.raises(Unauthenticated, match="decode does not hold the deployment's secret"):
        again.next_event()


def test_a_proof_cannot_be_sent_back_to_who_gave_it() -> None:
    """One who listens and repeats: he challenges prefill and gives its own proof as decode's."""
    prefill = end(Role.PREFILL, SECRET)
    prefill.feed(
        b"".join(seal(Challenge(security=Security.AUTHENTICATED, nonce=bytes(32), secret_ids=(SECRET.id,))).buffers)
    )
    prefill.next_event()
    proof = prefill.opening
    assert isinstance(proof, Proof)
    words_of(prefill)
    prefill.feed(b"".join(seal(replace(proof, nonce=bytes(32))).buffers))
    with pytest.raises(Unauthenticated):
        prefill.next_event()


@pytest.mark.parametrize("role", list(Role))
def test_a_hello_that_was_exchanged_on_the_way_is_refused(role: Role) -> None:
    own = TINY_PREFILL if role is Role.PREFILL else TINY_DECODE
    swapped = Hello(role=role, record=replace(own, name="somebody-else"), offer=end(role).limits.offer)

    def swap(at: int, raw: bytes) -> bytes:
        return b"".join(seal(swapped).buffers) if at == (3 if role is Role.PREFILL else 4) else raw

    with pytest.raises(Unauthenticated, match=f"hello of {role} is not the one of its proof"):
        shake(end(Role.PREFILL, SECRET), end(Role.DECODE, SECRET), swap)


@pytest.mark.parametrize(
    ("prefill", "decode", "chosen"),
    [
        ((OTHER, SECRET), (SECRET,), SECRET),
        ((SECRET,), (OTHER, SECRET), SECRET),
        ((SECRET, OTHER), (OTHER, SECRET), SECRET),
    ],
)
def test_while_a_secret_is_rotated_any_that_both_hold_will_do(
    prefill: tuple[Secret, ...], decode: tuple[Secret, ...], chosen: Secret
) -> None:
    ends = end(Role.PREFILL, *prefill), end(Role.DECODE, *decode)
    shake(*ends)
    assert ends[0].state is ConnectionState.OPEN
    assert ends[0].handshake and ends[0].handshake.secret == chosen


@pytest.mark.parametrize("kind", list(Kind))
def test_a_stranger_cannot_make_a_long_frame_wanted(kind: Kind) -> None:
    decode = end(Role.DECODE, SECRET)
    words_of(decode)
    head = bytearray(write_control_head(kind, bytes(16), b""))
    head[8:16] = (MAX_HANDSHAKE_BYTES + 1).to_bytes(8, "little")
    with pytest.raises(RemoteProtocolError):
        decode.begin(head)


def test_the_longest_abort_fits_before_the_proof() -> None:
    abort = Abort(request=bytes(16), code=AbortCode.UNAUTHENTICATED, reason="é" * 1000)
    assert seal(abort).length <= MAX_HANDSHAKE_BYTES


def test_a_secret_shows_in_no_text() -> None:
    for shown in (repr(SECRET), str(SECRET), repr(Credentials(Security.AUTHENTICATED, lambda: [SECRET], bytes(32)))):
        assert SECRET.value.hex() not in shown and repr(SECRET.value) not in shown
    assert SECRET.derive("a") != SECRET.derive("b") != SECRET.value


def test_a_connection_ends_when_its_secret_is_rotated_out() -> None:
    taken = [SECRET]
    ends = [
        Connection(role, record, credentials=Credentials(Security.AUTHENTICATED, lambda: taken, os.urandom(32)))
        for role, record in ((Role.PREFILL, TINY_PREFILL), (Role.DECODE, TINY_DECODE))
    ]
    shake(*ends)
    taken.insert(0, OTHER)
    for each in ends:
        assert not each.overdue()
        assert each.handshake is not None and each.handshake.taken and not each.handshake.preferred
    taken.remove(SECRET)
    for each in ends:
        with pytest.raises(Unauthenticated, match="taken no longer"):
            each.overdue()
        assert each.state is ConnectionState.BROKEN
