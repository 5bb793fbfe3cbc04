"""Whoever runs pdctl, and on which machine."""

import getpass
import os
import socket


def operator() -> tuple[str, str]:
    """(user, machine)."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return user, socket.gethostname()
