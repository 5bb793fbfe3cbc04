"""Who is there? Both ends prove that they hold the deployment's secret, before either says a word about itself.

    decode   CHALLENGE   security, its nonce, which secrets it takes
    prefill  PROOF       which secret, its nonce, the digest of its HELLO, and an HMAC over all that was said
    decode   PROOF       the same of its own

Each HMAC covers every byte that came before it, and the role of who says it: nothing can be replayed (both nonces are
new), reflected (roles differ), downgraded (the security is in it) or swapped (so are the HELLOs that follow).
`transcript` is what the two ends have in common afterwards; an encrypting transport derives its keys from it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pdwire import bodies
from pdwire.errors import LocalProtocolError, Unauthenticated
from pdwire.frames import MAX_SECRETS, NONCE_BYTES, SECRET_ID_BYTES, Challenge, Hello, Proof, Role, Security
from pdwire.state import ConnectionState
from pdwire.validate import exactly

SECRET_BYTES = 32
_HANDSHAKE = b"pdwire 1 handshake\0"
_PROOF_OF = b"pdwire 1 proof of "
_HELLO = b"pdwire 1 hello\0"


@dataclass(frozen=True, slots=True)
class Secret:
    """32 random bytes that every process of one deployment holds. Never shown, not even by repr."""

    value: bytes = field(repr=False)

    def __post_init__(self) -> None:
        exactly("a secret", self.value, SECRET_BYTES)

    @property
    def id(self) -> bytes:
        """Names it without giving it away."""
        return hashlib.sha256(b"pdwire secret id\0" + self.value).digest()[:SECRET_ID_BYTES]

    def derive(self, purpose: str) -> bytes:
        """32 bytes for another use. They tell nothing about the secret, nor about those of another purpose."""
        return hmac.digest(self.value, b"pdwire derived\0" + purpose.encode(), "sha256")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one end brings to one connection.

    secrets: the 1 to 4 that it takes now, the one that it prefers first; asked again while the connection lives.
    nonce: 32 bytes, new for every connection; where it is to be encrypted, the public half of a key pair made for this
    connection alone. Raises LocalProtocolError.
    """

    security: Security
    secrets: Callable[[], Sequence[Secret]]
    nonce: bytes

    def __post_init__(self) -> None:
        exactly("nonce", self.nonce, NONCE_BYTES)


class Handshake:
    """One end's part. secret: the chosen one. What the peer gets wrong raises Unauthenticated, which names no secret.

    challenge, proof: what this end has to say. said, heard: each frame of the handshake, once, in order.
    """

    def __init__(self, role: Role, credentials: Credentials, hello: Hello) -> None:
        self.secret: Secret | None = None
        self.peer_nonce = b""
        self._role = role
        self._credentials = credentials
        self._secrets = tuple(credentials.secrets())
        if not 1 <= len(self._secrets) <= MAX_SECRETS:
            raise LocalProtocolError(f"there must be 1 to {MAX_SECRETS} secrets: {len(self._secrets)}")
        self._hello = bodies.encode(hello)
        self._peer_hello = b""
        self._all = hashlib.sha256(_HANDSHAKE)

    @property
    def transcript(self) -> bytes:
        """The digest of all that both ends have said in it."""
        return self._all.digest()

    @property
    def taken(self) -> bool:
        """Whether the secret that was chosen is still one that this end takes."""
        return self.secret is None or self.secret in self._credentials.secrets()

    @property
    def preferred(self) -> bool:
        """Whether it is still the one that this end prefers."""
        return self.secret is None or self.secret == self._credentials.secrets()[0]

    @property
    def challenge(self) -> Challenge:
        own = self._credentials
        return Challenge(security=own.security, nonce=own.nonce, secret_ids=tuple(each.id for each in self._secrets))

    @property
    def proof(self) -> Proof:
        """Once a secret is chosen: by prefill from the challenge, by decode from prefill's proof."""
        if self.secret is None:
            raise LocalProtocolError("nothing can be proved before a secret is chosen")
        words = self.secret.id, self._credentials.nonce, _digest(self.secret, self._hello)
        mac = self._mac(self.secret, self._role, *words)
        return Proof(secret_id=words[0], nonce=words[1], hello=words[2], mac=mac)

    def opening(self, state: ConnectionState) -> Challenge | Proof | None:
        """What this end has to say now. None: it is the peer's turn."""
        match self._role, state:
            case Role.DECODE, ConnectionState.UNPROVEN:
                return self.challenge
            case (Role.PREFILL, ConnectionState.CHALLENGED) | (Role.DECODE, ConnectionState.HALF_PROVEN):
                return self.proof
            case _:
                return None

    def said(self, frame: Challenge | Proof) -> None:
        """Raises LocalProtocolError for one that is not ours."""
        if frame != (self.challenge if isinstance(frame, Challenge) else self.proof):
            raise LocalProtocolError("a frame of the handshake must be the handshake's own")
        self._all.update(bodies.encode(frame))

    def heard(self, frame: Challenge | Proof) -> None:
        if isinstance(frame, Challenge):
            self._hear_challenge(frame)
        else:
            self._hear_proof(frame)
        self._all.update(bodies.encode(frame))

    def check_hello(self, body: bytes) -> None:
        """Is it the one that the peer's proof spoke of?"""
        if self.secret is None or not hmac.compare_digest(_digest(self.secret, body), self._peer_hello):
            raise Unauthenticated(f"the hello of {self._role.peer} is not the one of its proof")

    def _hear_challenge(self, challenge: Challenge) -> None:
        own, peer = self._credentials.security.name.lower(), challenge.security.name.lower()
        if own != peer:
            raise Unauthenticated(f"prefill is set to `security: {own}`, decode to `security: {peer}`")
        self.secret = self._known(challenge.secret_ids)
        if self.secret is None:
            raise Unauthenticated("prefill and decode have no secret in common")
        self.peer_nonce = challenge.nonce

    def _hear_proof(self, proof: Proof) -> None:
        if self._role is Role.DECODE:
            self.secret, self.peer_nonce = self._known((proof.secret_id,)), proof.nonce
        secret = self.secret
        if secret is None or proof.secret_id != secret.id or proof.nonce != self.peer_nonce:
            raise Unauthenticated(f"{self._role.peer} names a secret or nonce that is not the one of this handshake")
        mac = self._mac(secret, self._role.peer, proof.secret_id, proof.nonce, proof.hello)
        if not hmac.compare_digest(mac, proof.mac):
            raise Unauthenticated(f"{self._role.peer} does not hold the deployment's secret")
        self._peer_hello = proof.hello

    def _known(self, ids: Sequence[bytes]) -> Secret | None:
        return next((secret for secret in self._secrets if secret.id in ids), None)

    def _mac(self, secret: Secret, role: Role, secret_id: bytes, nonce: bytes, hello: bytes) -> bytes:
        words = _PROOF_OF + role.encode() + b"\0" + self.transcript + secret_id + nonce + hello
        return hmac.digest(secret.value, words, "sha256")


def _digest(secret: Secret, hello: bytes) -> bytes:
    """With the secret in it, so that who only listens cannot try what the HELLO may say."""
    return hmac.digest(secret.value, _HELLO + hello, "sha256")
