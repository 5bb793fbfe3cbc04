"""What goes wrong on the way to a node, switched on and off: a link that is down, SSH sessions that end."""

import contextlib
import os
import signal
from collections.abc import Iterator

import psutil
from tests.lab.commands import run
from tests.lab.nodes import Node


@contextlib.contextmanager
def link_down(node: Node) -> Iterator[None]:
    """Every packet to and from the node is lost meanwhile; its connections are not closed."""
    run("ip", "-n", node.namespace, "link", "set", "eth0", "down")
    try:
        yield
    finally:
        run("ip", "-n", node.namespace, "link", "set", "eth0", "up")


def end_ssh_sessions(node: Node) -> int:
    """Kills the sshd of every session, as a node out of memory does; the listening one stays. How many there were."""
    killed = 0
    for pid in node.lab.pids(node.namespace):
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            process = psutil.Process(pid)
            if process.name().startswith("sshd") and "[listener]" not in " ".join(process.cmdline()):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    return killed


@contextlib.contextmanager
def unanswered(node: Node) -> Iterator[None]:
    """sshd stands still meanwhile, as on a node without memory: its kernel takes connections, and nobody answers them."""
    listening: list[psutil.Process] = []
    for pid in node.lab.pids(node.namespace):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.name() == "sshd" and "[listener]" in " ".join(process.cmdline()):
                process.suspend()
                listening.append(process)
    try:
        yield
    finally:
        for process in listening:
            process.resume()
