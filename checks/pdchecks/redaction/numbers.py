"""Keyed permutations of addresses: without the key nobody finds the way back, and what belonged together still does.

IPv4 and IPv6 keep common prefixes (Xu et al., Prefix-Preserving IP Address Anonymization, ICNP 2002): two addresses
that share N bits still share exactly N. MACs, GUIDs and interface identifiers keep all but their last 24 bits, which
one permutation maps everywhere, so that a GID or GUID made from a MAC still is.
"""

from functools import lru_cache
from hashlib import blake2s
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

_ROUNDS = 4
# Networks whose meaning is in their first bits: so many of these stay. Of any other address the first eight.
_KEPT4 = tuple(
    IPv4Network(network)
    for network in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "198.18.0.0/15")
)
# Never somebody's own: this host, loopback, multicast, netmasks and broadcast, documentation.
_OPEN4 = tuple(IPv4Network(network) for network in ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3"))
_OPEN6 = tuple(IPv6Network(network) for network in ("::/127", "ff00::/8"))
_MAPPED = IPv6Network("::ffff:0:0/96")
_EUI = 0xFFFE


class Numbers:
    """key: of at least 16 bytes, secret, and forgotten with the object."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.low24 = lru_cache(maxsize=65_536)(self._low24)
        self.ipv4 = lru_cache(maxsize=65_536)(self._ipv4)
        self.ipv6 = lru_cache(maxsize=65_536)(self._ipv6)

    def letters(self, text: str, alphabet: str) -> str:
        """As many letters as the text has, each from the alphabet."""
        stream = b""
        while len(stream) < len(text):
            stream += self._hash(b"letters", text.encode("utf-8", "surrogateescape") + len(stream).to_bytes(4, "big"))
        return "".join(alphabet[byte % len(alphabet)] for byte in stream[: len(text)])

    def identifier(self, value: int) -> int:
        """A MAC of 48 or a GUID of 64 bits: all but the last 24 bits stay."""
        return value >> 24 << 24 | self.low24(value & 0xFFFFFF)

    def _low24(self, value: int) -> int:
        """A permutation of 24 bits: a Feistel network of 12-bit halves."""
        left, right = value >> 12, value & 0xFFF
        for number in range(_ROUNDS):
            digest = self._hash(b"low24", bytes([number]) + right.to_bytes(2, "big"))
            left, right = right, left ^ int.from_bytes(digest[:2], "big") & 0xFFF
        return left << 12 | right

    def _ipv4(self, address: IPv4Address, length: int = 32) -> IPv4Address:
        """length: of the prefix, where it was printed with the address. A network stays one, a broadcast too."""
        if any(address in network for network in _OPEN4):
            return address
        kept = next((network.prefixlen for network in _KEPT4 if address in network), 8)
        value, host = int(address), (1 << 32 - length) - 1
        mapped = self._prefixes(b"ipv4", value, 32, kept)
        if length < 31 and value & host in (0, host):
            mapped = mapped & ~host | value & host
        return IPv4Address(mapped)

    def _ipv6(self, address: IPv6Address, length: int = 128) -> IPv6Address:
        value = int(address)
        if any(address in network for network in _OPEN6):
            return address
        if address in _MAPPED:
            return IPv6Address(value >> 32 << 32 | int(self.ipv4(IPv4Address(value & 0xFFFFFFFF))))
        host = (1 << 128 - length) - 1
        if address.is_link_local:
            return address if host and value & host == 0 else IPv6Address(self.identifier(value))
        kept = 8 if address.is_private else 16
        mapped = self._prefixes(b"ipv6", value, 128, kept)
        if value >> 24 & 0xFFFF == _EUI:
            mapped = mapped >> 64 << 64 | self.identifier(value & (1 << 64) - 1)
        elif length < 127 and value & host == 0:
            mapped &= ~host
        return IPv6Address(mapped)

    def _prefixes(self, what: bytes, value: int, width: int, kept: int) -> int:
        """Each bit after the kept ones is turned, or not, by what stands before it."""
        mapped = value
        for at in range(kept, width):
            before = value >> width - at
            if self._hash(what, bytes([at]) + before.to_bytes(16, "big"))[0] & 1:
                mapped ^= 1 << width - at - 1
        return mapped

    def _hash(self, what: bytes, data: bytes) -> bytes:
        return blake2s(data, key=self._key[:32], person=what[:8]).digest()
