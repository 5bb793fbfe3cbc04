"""`pdctl kv echo`: one KV transfer between two nodes, and the line that says how it went."""

import ipaddress
import sys

from pdctl.errors import UsageError
from pdctl.exit_codes import ExitCode
from pdwire import SECRET_BYTES, IncompatiblePeer, Secret


def secret_of_stdin() -> Secret:
    """The first line. Raises UsageError without its words."""
    try:
        value = bytes.fromhex(sys.stdin.readline(4 * SECRET_BYTES))
    except ValueError:
        value = b""
    if len(value) != SECRET_BYTES:
        raise UsageError(f"stdin holds no secret: {2 * SECRET_BYTES} hexadecimal digits and a newline")
    return Secret(value)


def listen_once(host: str, secret: Secret | None, seconds: float) -> tuple[str, ExitCode]:
    """Raises UsageError for an address that is none of this host's, or that strangers reach without a secret."""
    from pdserve.echo import EchoFailed, listen

    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise UsageError(f"`{host}` is no IP address") from None
    if secret is None and not loopback:
        raise UsageError("without a secret an echo listens on loopback only", hint="give both ends one: --secret-stdin")

    def said(address: str) -> None:
        print(f"listening at {address}", file=sys.stderr, flush=True)

    try:
        done = listen(host, secret, deadline_s=seconds, listening=said)
    except EchoFailed as error:
        return f"failed: {error}", ExitCode.FINDINGS
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot listen at `{host}`", detail=str(error)) from None
    return f"received {done.size} bytes in {done.frames} frames, every checksum right", ExitCode.DONE


def send_once(address: str, secret: Secret | None, size: int, seconds: float) -> tuple[str, ExitCode]:
    from pdserve.echo import send
    from pdserve.transport.base import TransferFailed

    try:
        done = send(address, secret, size, deadline_s=seconds)
    except (TransferFailed, IncompatiblePeer) as error:
        return f"failed: {' '.join(str(error).split())}", ExitCode.FINDINGS
    return (
        f"sent {done.size} bytes in {done.frames} frames to {address}, verified there, in {done.seconds:.3f} s",
        ExitCode.DONE,
    )
