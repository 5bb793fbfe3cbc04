"""A real SSH server on loopback that runs commands with sh, for tests of how nodes are reached."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko


class _Session(paramiko.ServerInterface):
    def __init__(self, user: str, key: paramiko.PKey) -> None:
        self._user, self._key = user, key
        self.command = b""
        self.asked = threading.Event()

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = username == self._user and key == self._key
        return paramiko.AUTH_SUCCESSFUL if known else paramiko.AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.command = command
        self.asked.set()
        return True


@dataclass
class Server:
    port: int
    host_key: paramiko.PKey


@contextlib.contextmanager
def serving(
    user: str, user_key: paramiko.PKey, *, deadline_s: float = 5, only_tools: Path | None = None
) -> Iterator[Server]:
    """only_tools: the one folder in which commands find their tools, whatever they do to PATH."""
    host_key = paramiko.ECDSAKey.generate()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    stop = threading.Event()

    def session(sock: socket.socket) -> None:
        with contextlib.closing(paramiko.Transport(sock)) as transport:
            transport.add_server_key(host_key)
            server = _Session(user, user_key)
            try:
                transport.start_server(server=server)
            except (paramiko.SSHException, EOFError, OSError):
                return
            channel = transport.accept(10)
            if channel is None or not server.asked.wait(10):
                return
            stdin = b"".join(iter(lambda: channel.recv(65536), b""))
            if only_tools is not None:
                stdin = re.sub(rb"^PATH=.*$", b"PATH=" + bytes(only_tools), stdin, flags=re.MULTILINE)
            child = subprocess.Popen(
                [shutil.which("sh") or "sh", "-c", server.command],
                env=None if only_tools is None else {"PATH": str(only_tools)},
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            try:
                output, _ = child.communicate(stdin, timeout=deadline_s)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                output, _ = child.communicate()
            with contextlib.suppress(OSError):
                channel.sendall(output)
                channel.send_exit_status(child.returncode & 0xFF)
                channel.close()

    def accept() -> None:
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                threading.Thread(target=session, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield Server(listener.getsockname()[1], host_key)
    finally:
        stop.set()
        thread.join()
        listener.close()
