"""A node over SSH: one connection, one exec, the script on stdin. Host keys are strict unless the user's own
configuration says otherwise."""

import logging
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pdctl.reach.outcome import LATE, MAX_OUTPUT_BYTES, Outcome, Reached, Unreached
from pdctl.reach.ssh_auth import strategy
from pdctl.reach.ssh_target import SshTarget

if TYPE_CHECKING:
    from paramiko import Channel, SSHClient, SSHException

_CHUNK = 1 << 16

_RENEWED = "if the node was installed anew: `ssh-keygen -R '{}'`, then connect once with ssh and compare the new key"
_FIRST = "connect once with `ssh -p {} {}` and compare the key's fingerprint with the node's own"
_KEYS = "name the key with ansible_ssh_private_key_file, or load it with ssh-add; see ansible_user"
_DOWN = "see whether the node is up, and whether sshd listens there and no firewall is in between"
_NAME = "give the host an address with ansible_host"
_NOT_SSH = "see whether it is sshd that listens there (ansible_port)"
_BABBLES = "see what a plain `ssh` to it prints: its shell's start-up files must be silent and sh must be there"


def run_ssh(node: str, target: SshTarget, script: str, *, connect_s: float, deadline_s: float) -> Outcome:
    """connect_s: for each TCP connect, banner and authentication. deadline_s: for everything."""
    import paramiko

    # It prints tracebacks of its own threads; what they mean is in the outcome.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
    end = time.monotonic() + deadline_s
    received: list[bytes] = []
    where = f"{target.host} port {target.port}"
    try:
        with ExitStack() as stack:
            client = _connect(stack, target, connect_s)
            transport = client.get_transport()
            assert transport is not None
            channel = transport.open_session(timeout=connect_s)
            stack.callback(channel.close)
            status = _exec(channel, script, received, end)
    except paramiko.BadHostKeyException as error:
        reason = f"{where}: its host key is not the known one ({error.key.get_name()}); not connected"
        return Unreached(node, reason, hint=_RENEWED.format(_known_as(target)))
    except paramiko.AuthenticationException as error:
        return Unreached(node, f"authentication failed {_line(error)}", hint=_KEYS)
    except _Late:
        return Unreached(node, f"the collector did not end within {deadline_s:g} s", _text(received), LATE)
    except _TooMuch:
        return Unreached(node, f"printed more than {MAX_OUTPUT_BYTES} bytes", hint=_BABBLES)
    except TimeoutError:
        return Unreached(node, f"{where}: no answer within {connect_s:g} s", _text(received), _DOWN)
    except paramiko.SSHException as error:
        reason = _unspoken(error, connect_s)
        hint = _FIRST.format(target.port, target.host) if "known_hosts" in reason else _NOT_SSH
        return Unreached(node, f"{where}: {reason}", _text(received), hint)
    except OSError as error:
        hint = _NAME if isinstance(error, socket.gaierror) else _DOWN
        return Unreached(node, f"{where}: {(error.strerror or _line(error)).lower()}", _text(received), hint)
    if status != 0 and not received:
        return Unreached(node, f"`sh` ended with status {status} and printed nothing", hint=_BABBLES)
    return Reached(node, _text(received))


class _Late(Exception):
    pass


class _TooMuch(Exception):
    pass


def _connect(stack: ExitStack, target: SshTarget, connect_s: float) -> "SSHClient":
    """Through the jump hosts, if any. The stack closes what was opened, last first."""
    through: Channel | None = None
    client: SSHClient | None = None
    for hop in (*target.jump, target):
        if client is not None:
            transport = client.get_transport()
            assert transport is not None
            through = transport.open_channel("direct-tcpip", (hop.host, hop.port), ("127.0.0.1", 0), timeout=connect_s)
        client = _open(hop, connect_s, through)
        stack.callback(client.close)
    assert client is not None
    return client


def _open(hop: SshTarget, connect_s: float, through: "Channel | None") -> "SSHClient":
    import paramiko

    client = paramiko.SSHClient()
    for path in hop.known_hosts:
        if path.is_file():
            client.load_system_host_keys(str(path))
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy() if hop.accept_new else paramiko.RejectPolicy())
    unusable: list[str] = []
    try:
        client.connect(
            hop.host,
            port=hop.port,
            username=hop.user,
            # Of banner and key exchange together: the banner's own limit has to pass first, or its reason is lost.
            timeout=connect_s + 1.0,
            banner_timeout=connect_s,
            auth_timeout=connect_s,
            channel_timeout=connect_s,
            # paramiko's own connect hides the system's reason.
            sock=through or socket.create_connection((hop.host, hop.port), timeout=connect_s),
            auth_strategy=strategy(hop, unusable),
        )
    except paramiko.AuthenticationException:
        why = "; ".join(unusable) or "the node takes none of the keys, nor a password"
        client.close()
        raise paramiko.AuthenticationException(f"as `{hop.user}` at {hop.host}: {why}") from None
    except BaseException:
        client.close()
        raise
    return client


def _exec(channel: "Channel", script: str, received: list[bytes], end: float) -> int:
    channel.exec_command("sh -s")
    channel.settimeout(max(0.1, end - time.monotonic()))
    try:
        # Nobody reads stderr: left alone it would fill the channel's window and stall the script.
        channel.sendall(b"exec 2>/dev/null\n" + script.encode())
        channel.shutdown_write()
        size = 0
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise _Late
            channel.settimeout(left)
            data = channel.recv(_CHUNK)
            if not data:
                break
            size += len(data)
            if size > MAX_OUTPUT_BYTES:
                raise _TooMuch
            received.append(data)
        if not channel.status_event.wait(max(0.0, end - time.monotonic())):
            raise _Late
    except TimeoutError:
        raise _Late from None
    return channel.recv_exit_status()


def _unspoken(error: "SSHException", connect_s: float) -> str:
    """Why no SSH session came about, where paramiko's own words do not say it."""
    said = _line(error)
    if said.startswith("Error reading SSH protocol banner"):
        silent = isinstance(error.__context__, TimeoutError)
        return f"no SSH banner within {connect_s:g} s" if silent else "it closed the connection without an SSH banner"
    if said == "No existing session":
        return f"no SSH key exchange within {connect_s + 1.0:g} s"
    return said


def _known_as(target: SshTarget) -> str:
    """The host as known_hosts calls it."""
    return target.host if target.port == 22 else f"[{target.host}]:{target.port}"


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _text(received: list[bytes]) -> str:
    return b"".join(received).decode("utf-8", "surrogateescape")
