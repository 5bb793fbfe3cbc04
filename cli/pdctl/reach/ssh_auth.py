"""How we say who we are: the keys that were named, else the agent's and the usual ones, then the password."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdctl.reach.ssh_target import SshTarget, usual_keys

if TYPE_CHECKING:
    from paramiko.auth_strategy import AuthSource, AuthStrategy


def strategy(target: SshTarget, unusable: list[str]) -> "AuthStrategy":
    """unusable: gets a line for each key that could not be loaded, for the message when nothing else worked."""
    from paramiko.auth_strategy import AuthStrategy

    class Strategy(AuthStrategy):
        def get_sources(self) -> "Iterator[AuthSource]":
            return _sources(target, unusable)

    from paramiko.config import SSHConfig

    return Strategy(ssh_config=SSHConfig())


def _sources(target: SshTarget, unusable: list[str]) -> "Iterator[AuthSource]":
    from paramiko.agent import Agent
    from paramiko.auth_strategy import InMemoryPrivateKey, Password

    for path in target.keys or usual_keys():
        key = _load(path, unusable)
        if key is not None:
            yield InMemoryPrivateKey(target.user, key)
    for key in Agent().get_keys():
        yield InMemoryPrivateKey(target.user, key)
    if target.password is not None:
        password = target.password
        yield Password(target.user, lambda: password)


def _load(path: Path, unusable: list[str]) -> Any:
    import paramiko

    try:
        return paramiko.PKey.from_path(path)
    except paramiko.PasswordRequiredException:
        unusable.append(f"{path} has a passphrase; add it to ssh-agent")
    except (OSError, ValueError, paramiko.SSHException) as error:
        unusable.append(f"{path}: {error}")
    return None
