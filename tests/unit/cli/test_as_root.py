"""One script as root on a node whose sudo asks for a password, which no other process gets to see."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from pdctl.reach.root import as_root

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="becomes another user by setpriv as root"
)

_AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
_SCRIPT = """echo "root: ${SUDO_USED-0}, it's read $(wc -c) bytes"\nexit 7"""
# It shows what every process of the machine may see, and leaves what it did not read to the command.
_SUDO = r"""#!/bin/sh
if [ "$1" = -n ]; then
    [ -e REMEMBERS ] || { echo 'sudo: a password is required' >&2; exit 1; }
    shift
    SUDO_USED=1 exec "$@"
fi
[ "$1 $2" = '-S -p' ] && [ -z "$3" ] || exit 1
shift 3
if [ ! -e KNOWS ]; then
    read -r said
    [ "$said" = "it's FIRST SECOND" ] || { echo 'sudo: 1 incorrect password attempt' >&2; exit 1; }
fi
grep -saH 'FIRST[ ]SECOND' /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\0' ' ' >>SEEN
SUDO_USED=1 exec "$@"
"""


class Node:
    def __init__(self, folder: Path) -> None:
        self.folder, self.first, self.second = folder, token_hex(8), token_hex(8)
        self.password = f"it's {self.first} {self.second}"
        self.seen = folder / "seen"
        self.seen.touch()
        self.seen.chmod(0o666)
        text = _SUDO.replace("FIRST", self.first).replace("SECOND", self.second).replace("SEEN", str(self.seen))
        text = text.replace("REMEMBERS", str(folder / "remembers")).replace("KNOWS", str(folder / "knows"))
        (folder / "sudo").write_text(text, encoding="utf-8")
        (folder / "sudo").chmod(0o755)

    def run(self, password: str | None, *user: str, shell: str = "sh") -> tuple[int, str]:
        ended = subprocess.run(
            [*user, shell, "-s"],
            input=as_root(_SCRIPT, password),
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "sudo_password": "exported"},
        )
        return ended.returncode, ended.stdout


@pytest.fixture
def node() -> Iterator[Node]:
    """In a folder that every user can read, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Node(Path(name))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_root_asks_no_sudo(node: Node, shell: str) -> None:
    assert node.run(node.password, shell=shell) == (7, "root: 0, it's read 0 bytes\n")


def test_sudo_that_asks_for_nothing_gets_no_password(node: Node) -> None:
    (node.folder / "remembers").touch()
    assert {node.run(password, *_AS_NOBODY) for password in (None, "wrong")} == {(7, "root: 1, it's read 0 bytes\n")}


@pytest.mark.parametrize("unread", [False, True], ids=["sudo reads it", "sudo leaves it unread"])
def test_the_password_goes_to_sudo_alone(node: Node, unread: bool) -> None:
    if unread:
        (node.folder / "knows").touch()
    assert node.run(node.password, *_AS_NOBODY) == (7, "root: 1, it's read 0 bytes\n")
    assert node.seen.read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("password", [None, "wrong"])
def test_where_sudo_refuses_nothing_is_printed(node: Node, password: str | None) -> None:
    code, printed = node.run(password, *_AS_NOBODY)
    assert (code != 0, printed) == (True, "")
