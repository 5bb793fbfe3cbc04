"""How a transport protects its connections: who proves what (pdwire.auth), and what encrypts the rest.

authenticated   the two PROOFs; nonces are random
encrypted       the nonces are X25519 public keys of this connection alone, and everything after the PROOFs is
                sealed with AES-256-GCM (`encrypted_stream`). The keys come from the exchange, the secret and the
                transcript: who learns the secret later cannot read what was recorded before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pdserve.secret_file import SecretFile
from pdserve.transport.encrypted_stream import EncryptedStream
from pdserve.transport.stream import PeerGone, Stream
from pdwire import NONCE_BYTES, Connection, Credentials, Role, Secret, Security

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

KEY_BYTES = 32
_PURPOSE = b"pdwire 1 traffic of "


@dataclass(frozen=True, slots=True)
class TransportSecurity:
    """Of one process. secrets: those that it takes now, the one to use first."""

    security: Security
    secrets: Callable[[], Sequence[Secret]]

    @classmethod
    def of(cls, name: str, file: SecretFile | None) -> TransportSecurity | None:
        """name: the configuration's `security`. None without a file: then nobody proves anything."""
        return None if file is None else cls(Security[name.upper()], lambda: file.secrets)

    def begin(self) -> Guard:
        """For one connection."""
        if self.security is Security.AUTHENTICATED:
            return Guard(Credentials(self.security, self.secrets, os.urandom(NONCE_BYTES)), None)
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        private = X25519PrivateKey.generate()
        return Guard(Credentials(self.security, self.secrets, private.public_key().public_bytes_raw()), private)


class Guard:
    """Of one connection: what it brings to the handshake, and what carries its bytes afterwards."""

    def __init__(self, credentials: Credentials, private: X25519PrivateKey | None) -> None:
        self.credentials = credentials
        self._private = private

    def protect(self, stream: Stream, connection: Connection) -> Stream:
        """Once both have proved who they are. Raises PeerGone for a nonce that is no key."""
        private, self._private = self._private, None
        if private is None:
            return stream
        prefill, decode = (self._key(private, connection, role) for role in Role)
        own, peer = (prefill, decode) if connection.role is Role.PREFILL else (decode, prefill)
        return EncryptedStream(stream, send_key=own, receive_key=peer)

    def _key(self, private: X25519PrivateKey, connection: Connection, speaker: Role) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        handshake = connection.handshake
        assert handshake is not None and handshake.secret is not None, "both have proved that they hold one"
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(handshake.peer_nonce))
        except ValueError:
            raise PeerGone("its nonce is not a key") from None
        info = _PURPOSE + speaker.encode()
        derivation = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=handshake.transcript, info=info)
        return derivation.derive(shared + handshake.secret.derive("traffic"))
