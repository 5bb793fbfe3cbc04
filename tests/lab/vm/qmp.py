"""QEMU's machine protocol over a Unix socket: one connection a command, since a machine may live for hours between two."""

import json
import socket
from pathlib import Path
from typing import Any

_LONGEST_REPLY = 1 << 20


def execute(path: Path, command: str, *, timeout_s: float = 120.0, **arguments: Any) -> Any:
    """What `command` returns. Raises RuntimeError with QEMU's reason, OSError when QEMU is gone or silent."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        connection.connect(str(path))
        with connection.makefile("rwb") as stream:
            _reply(stream)
            _ask(stream, "qmp_capabilities", {})
            return _ask(stream, command, arguments)


def human(path: Path, line: str, *, timeout_s: float = 120.0) -> str:
    """A command of the human monitor, for what the protocol lacks. It reports an error as text: RuntimeError here."""
    said = str(execute(path, "human-monitor-command", timeout_s=timeout_s, **{"command-line": line})).strip()
    if "error" in said.lower():
        raise RuntimeError(f"{line}: {said}")
    return said


def _ask(stream: Any, command: str, arguments: dict[str, Any]) -> Any:
    stream.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
    stream.flush()
    while True:
        reply = _reply(stream)
        if "error" in reply:
            raise RuntimeError(f"{command}: {reply['error']['desc']}")
        if "return" in reply:
            return reply["return"]


def _reply(stream: Any) -> dict[str, Any]:
    """The next message: greeting, answer or event."""
    line = stream.readline(_LONGEST_REPLY)
    if not line:
        raise ConnectionError("QEMU closed its monitor")
    reply: dict[str, Any] = json.loads(line)
    return reply
