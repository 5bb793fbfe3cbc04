"""An SNTP server (RFC 4330) that tells this machine's time, for the lab's controller namespace.

usage: timeserver.py ADDRESS
"""

import socket
import struct
import sys
import time

# Seconds from NTP's epoch, 1900, to Unix's.
_UNIX_EPOCH = 2_208_988_800
_SERVER_MODE, _CLIENT_MODE = 4, 3
_PACKET = struct.Struct("!BBbb3I4Q")


def _now() -> int:
    """As NTP counts: seconds since 1900 in 32 bits, and their fraction in 32 more."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return (seconds + _UNIX_EPOCH) << 32 | (nanoseconds << 32) // 1_000_000_000


def reply(request: bytes, received: int) -> bytes | None:
    """The answer to a client's request that came at `received`, NTP time; None when it is none."""
    if len(request) < _PACKET.size or request[0] & 7 != _CLIENT_MODE:
        return None
    version, poll = request[0] >> 3 & 7, request[2]
    sent_by_client = _PACKET.unpack(request[: _PACKET.size])[-1]
    # Stratum 1, precision of a microsecond, no delay and no dispersion, and a reference that says "this host's own clock".
    head = (version << 3 | _SERVER_MODE, 1, poll, -20, 0, 0, int.from_bytes(b"LOCL"))
    return _PACKET.pack(*head, received, sent_by_client, received, _now())


def main() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((sys.argv[1], 123))
        while True:
            request, client = server.recvfrom(512)
            if answer := reply(request, _now()):
                server.sendto(answer, client)


if __name__ == "__main__":
    main()
