"""What an active test's command carries, so that its block says between whom it ran: `ping ...   # active: to decode-1`."""

import re

_MARK = re.compile(r"\s{1,4}# active: (?P<way>to|from) (?P<node>\S{1,253})$")


def marked(command: str, peer: str, *, served: bool = False) -> str:
    """served: the command waits for the peer's."""
    return f"{command}   # active: {'from' if served else 'to'} {peer}"


def peer_of(command: str, *, served: bool = False) -> str:
    """The other node; empty where the command is no such end of an active test."""
    found = _MARK.search(command)
    return found["node"] if found and (found["way"] == "from") == served else ""


def is_active(command: str) -> bool:
    return _MARK.search(command) is not None


def bare(command: str) -> str:
    """The command itself."""
    return _MARK.sub("", command)
